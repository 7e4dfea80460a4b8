package xdp

import (
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
)

// Datagram is a message that a [Machine] sent.
type Datagram struct {
	To      netip.AddrPort
	Message []byte
}

// SetClock sets the time that leases are measured on, in nanoseconds. It stands still.
func (m *Machine) SetClock(now uint64) error { return m.objects.TestNow.Set(now) }

// Receive runs the program on a message from another host of [conformance.Net], and appends to out what the node sends,
// in order.
func (m *Machine) Receive(from netip.AddrPort, message []byte, out []Datagram) ([]Datagram, error) {
	in := frame.Append(nil, &frame.Packet{
		SourceMAC: conformance.MACOf(from.Addr()), DestMAC: conformance.MACOf(m.self.Addr()),
		From: from, To: m.self, Message: message,
	})
	verdict, frames, err := m.Step(in)
	if err != nil {
		return out, err
	}
	if verdict == conformance.Pass {
		return out, fmt.Errorf("a message of %d bytes from %v to the node passed it", len(message), from)
	}
	for _, f := range frames {
		sent, err := frame.ReadSent(f)
		if err != nil {
			return out, err
		}
		out = append(out, Datagram{sent.To, sent.Message})
	}
	return out, nil
}
