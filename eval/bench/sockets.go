package bench

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// SocketOptions describe a chain for clients with sockets.
type SocketOptions struct {
	NodeOptions
	Nodes int // length of the chain
}

// Sockets is a chain of nodes, each in its own host, and a clients' host that reaches all of them
// by sockets.
type Sockets struct {
	mesh  *mesh
	addrs []netip.AddrPort
}

// OpenSockets starts the nodes and configures them as a chain.
func OpenSockets(_ context.Context, o SocketOptions) (*Sockets, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m, err := newMesh(o.Nodes, &o.NodeOptions)
	if err != nil {
		return nil, err
	}
	s := &Sockets{mesh: m}
	for _, w := range m.ways {
		s.addrs = append(s.addrs, w.dest)
	}
	if err := m.openToSockets(); err != nil {
		s.Close()
		return nil, err
	}
	// Without agents one lost ACK would keep a key busy for CAS indefinitely. In a cluster agents
	// prevent that.
	stop, err := startAgents(m.nodes)
	if err != nil {
		s.Close()
		return nil, err
	}
	m.undo.add(stop)
	return s, nil
}

// openToSockets lets sockets of the generator's host receive packets sent by XDP nodes.
func (m *mesh) openToSockets() error {
	for _, p := range m.genPorts() {
		open, err := openToXDP(p)
		if err != nil {
			return err
		}
		m.undo.add(func() { open.Close() })
	}
	return nil
}

// Cluster returns the chain's cluster map for clients.
func (s *Sockets) Cluster() *topology.Cluster {
	c := &topology.Cluster{Epoch: epoch, Shards: 1, Chains: [][]string{nil}}
	for i, addr := range s.addrs {
		name := fmt.Sprintf("n%d", i+1)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: addr})
		c.Chains[0] = append(c.Chains[0], name)
	}
	return c
}

// Subject returns the kind of node.
func (s *Sockets) Subject() Subject { return s.mesh.nodes[0].subject() }

// Do runs f on a thread in the clients' host. A socket stays in the host in which it was made.
func (s *Sockets) Do(f func() error) error { return s.mesh.gen.do(f) }

// Close stops the nodes and removes hosts and links.
func (s *Sockets) Close() error {
	s.mesh.undo.run()
	return nil
}
