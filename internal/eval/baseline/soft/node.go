package soft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/eval/baseline"
)

const (
	// relayOffset is how far the port between nodes is above that of clients.
	relayOffset = 1000
	// sourceBytes lead a packet between nodes: its source's address and port.
	sourceBytes = 4 + 2
	// maxBytes is more than any message of the protocols has.
	maxBytes = 2048
	// pause keeps a socket that fails without being closed from turning into a busy loop.
	pause = 10 * time.Millisecond
)

// Machine is a node of a protocol.
type Machine interface {
	Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet
}

// Node is a machine on its sockets.
type Node[M Machine] struct {
	self    netip.AddrPort
	clients *net.UDPConn
	nodes   *net.UDPConn
	readers sync.WaitGroup

	mu      sync.Mutex
	machine M
}

// Listen opens the sockets of a node, at its address and the protocol's port, and serves until [Node.Close].
func Listen[M Machine](ctx context.Context, self netip.AddrPort, machine M) (*Node[M], error) {
	n := &Node[M]{self: self, machine: machine}
	var err error
	if n.clients, err = listen(ctx, self); err != nil {
		return nil, err
	}
	if n.nodes, err = listen(ctx, relayAt(self)); err != nil {
		return nil, errors.Join(err, n.clients.Close())
	}
	n.readers.Go(func() {
		n.serve(n.clients, func(from netip.AddrPort, b []byte) (baseline.Packet, bool) {
			return baseline.Packet{From: from, To: self, Payload: b}, true
		})
	})
	n.readers.Go(func() { n.serve(n.nodes, n.relayed) })
	return n, nil
}

func listen(ctx context.Context, at netip.AddrPort) (*net.UDPConn, error) {
	var config net.ListenConfig
	socket, err := config.ListenPacket(ctx, "udp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("UDP %v: %w; choose another address, or stop who has it", at, err)
	}
	return socket.(*net.UDPConn), nil
}

// relayAt is where a node hears other nodes.
func relayAt(node netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(node.Addr(), node.Port()+relayOffset)
}

// relayed takes the source off a packet of another node.
func (n *Node[M]) relayed(_ netip.AddrPort, b []byte) (baseline.Packet, bool) {
	if len(b) < sourceBytes {
		return baseline.Packet{}, false
	}
	from, payload := relayed(b)
	return baseline.Packet{From: from, To: n.self, Payload: payload}, true
}

// serve gives received packets to the machine until the socket is closed.
func (n *Node[M]) serve(socket *net.UDPConn, read func(netip.AddrPort, []byte) (baseline.Packet, bool)) {
	buffer := make([]byte, maxBytes)
	var out []baseline.Packet
	for {
		length, from, err := socket.ReadFromUDPAddrPort(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(pause)
			continue
		}
		p, ok := read(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), buffer[:length])
		if !ok {
			continue
		}
		n.mu.Lock()
		out = n.machine.Receive(p, out[:0])
		for _, one := range out { // under the lock: packets leave in the order in which the machine made them
			n.send(one)
		}
		n.mu.Unlock()
	}
}

// send lets a packet leave. One that gets lost on the way out is lost, as on any network.
func (n *Node[M]) send(p baseline.Packet) {
	if p.From == n.self || p.To.Port() != n.self.Port() { // its own, or an answer for a node that is gone
		_, _ = n.clients.WriteToUDPAddrPort(p.Payload, p.To)
		return
	}
	_, _ = n.nodes.WriteToUDPAddrPort(relay(p.From, p.Payload), relayAt(p.To))
}

// relay is a packet as nodes send it to each other.
func relay(source netip.AddrPort, payload []byte) []byte {
	address := source.Addr().As4()
	return append(binary.BigEndian.AppendUint16(address[:], source.Port()), payload...)
}

// relayed reads one; b has at least the source.
func relayed(b []byte) (source netip.AddrPort, payload []byte) {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b)), binary.BigEndian.Uint16(b[4:])), b[sourceBytes:]
}

// Do gives the machine to the control plane between two packets. All output of the previous packet
// has left.
func (n *Node[M]) Do(act func(M)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	act(n.machine)
}

// Close stops the node. Packets in flight to it are lost.
func (n *Node[M]) Close() error {
	err := errors.Join(n.clients.Close(), n.nodes.Close())
	n.readers.Wait()
	return err
}
