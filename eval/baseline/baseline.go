package baseline

import "net/netip"

// Packet is a UDP datagram over IPv4. Addresses belong to it because both protocols rewrite them: a
// request that is passed on keeps its client as source, so that the last node can answer.
type Packet struct {
	From, To netip.AddrPort
	Payload  []byte
}

// Reply is a packet back to where p came from, addresses and ports swapped.
func (p *Packet) Reply(payload []byte) Packet { return Packet{p.To, p.From, payload} }

// Redirect is the packet with another destination address, the same port, and the same source.
func (p *Packet) Redirect(to netip.Addr, payload []byte) Packet {
	return Packet{p.From, netip.AddrPortFrom(to, p.To.Port()), payload}
}

// Target is something that claims to be a node of a protocol whose state (configuration, tables,
// registers and counts) is an S. The pure machines are targets, and so are their counterparts on
// sockets and in the kernel.
type Target[S any] interface {
	// Name is for messages.
	Name() string
	// Load replaces configuration, tables, registers and counts.
	Load(S) error
	// Step gives the node a packet and returns the packets that leave it, in order. A packet for
	// another host leaves unchanged.
	Step(Packet) ([]Packet, error)
	// State is everything that Load sets. The caller may change it.
	State() (S, error)
	Close() error
}
