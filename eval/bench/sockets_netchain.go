package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/xdp"
)

// NetChainSockets is a NetChain chain of XDP nodes for clients with sockets, in the network of
// [Sockets].
type NetChainSockets struct {
	mesh  *mesh
	Chain []netip.Addr // head first
}

// OpenNetChainSockets starts the nodes and stores value under all keys at each. SEQ has 32 bits.
func OpenNetChainSockets(_ context.Context, nodes int, keys []netchain.Key, value []byte) (*NetChainSockets, error) {
	m, hosts, err := newLinkedHosts(nodes)
	if err != nil {
		return nil, err
	}
	s := &NetChainSockets{mesh: m}
	for i, h := range hosts {
		at := m.ways[i].to.addr
		if err := m.startNetChain(h, at, keys, value); err != nil {
			s.Close()
			return nil, fmt.Errorf("start a node of NetChain: %w", err)
		}
		s.Chain = append(s.Chain, at)
	}
	if err := m.openToSockets(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// startNetChain starts a node on all ports of a host.
func (m *mesh) startNetChain(h *host, at netip.Addr, keys []netchain.Key, value []byte) error {
	config := netchain.Config{Self: at, Wide: true, Slots: len(keys),
		ValueBytes: max(len(value), netchain.CompareBytes), Groups: 1}
	var names []string
	for _, p := range m.portsOf(h) {
		names = append(names, p.name)
	}
	return h.do(func() error {
		n, err := xdp.OpenNetChain(config, names)
		if err != nil {
			return err
		}
		m.undo.add(func() { n.Close() })
		return n.Insert(keys, 0, func(netchain.Key) []byte { return value })
	})
}

// Listen makes a socket in the clients' host.
func (s *NetChainSockets) Listen() (conn *net.UDPConn, err error) {
	err = s.mesh.gen.do(func() error {
		conn, err = net.ListenUDP("udp4", nil)
		return err
	})
	return conn, err
}

// Close stops the nodes and removes hosts and links.
func (s *NetChainSockets) Close() error {
	s.mesh.undo.run()
	return nil
}
