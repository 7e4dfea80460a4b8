package harness

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// XDP is the XDP program as a [conformance.Target], and as a node for simulations of many:
// [NewXDPAt] sets its address, SetClock its time, and [XDP.Receive] handles one message at a time.
type XDP struct{ *xdp.Offline }

var (
	_ conformance.Keyed        = (*XDP)(nil)
	_ conformance.NearbyTarget = (*XDP)(nil)
)

// NewXDP makes the node at [conformance.Me]. It needs root.
func NewXDP() (*XDP, error) { return NewXDPAt(conformance.Me) }

// NewXDPAt makes a node at another address of [conformance.Net].
func NewXDPAt(self netip.AddrPort) (*XDP, error) {
	node, err := xdp.NewOffline(self, conformance.Net)
	if err != nil {
		return nil, err
	}
	return &XDP{node}, nil
}

// Name implements [conformance.Target].
func (m *XDP) Name() string { return "xdp" }

// Load implements [conformance.Target].
func (m *XDP) Load(s conformance.State) error {
	configs := make(map[uint16]chain.ShardConfig, len(s.Shards))
	for number, shard := range s.Shards {
		configs[number] = shard.Config
	}
	if err := m.ConfigureAll(configs); err != nil {
		return err
	}
	if err := m.SetClock(conformance.Now); err != nil {
		return err
	}
	for number, shard := range s.Shards {
		m.Grant(number, dataplane.LeaseUntil(conformance.Now, shard.Lease))
	}
	if s.Heart != nil {
		if err := m.SetHeart(*s.Heart); err != nil {
			return err
		}
	}
	for k, o := range s.Objects {
		if err := m.PutObject(k, o); err != nil {
			return err
		}
	}
	for k, session := range s.Sessions {
		if err := m.PutSession(k, session); err != nil {
			return err
		}
	}
	return nil
}

// Step implements [conformance.Target].
func (m *XDP) Step(in []byte) (conformance.Verdict, [][]byte, error) {
	action, sent, err := m.Run(in)
	switch action {
	case xdp.Passed:
		return conformance.Pass, sent, err
	case xdp.Dropped:
		return conformance.Drop, sent, err
	}
	for _, out := range sent {
		err = errors.Join(err, checkLink(in, out, m.Self().Addr()))
	}
	return conformance.Sent, sent, err
}

// checkLink checks the link addresses of a frame that was sent because of another: those of its receiver and of the node,
// or the other's exchanged. A target of [conformance] may have a network in which there are more ways, an XDP has one.
func checkLink(in, out []byte, self netip.Addr) error {
	if datagram, ok := frame.Content(out); ok && wire.IsBundle(datagram) {
		out = out[:frame.HeaderBytes+len(datagram)] // padding may follow
	}
	const sourceAt = frame.EthernetBytes + 12
	if source := self.As4(); len(out) >= frame.HeaderBytes && !bytes.Equal(out[sourceAt:sourceAt+4], source[:]) {
		return nil // in transit
	}
	p, err := frame.ReadSent(out)
	if err != nil {
		return err
	}
	const macBytes = 6
	to, by := conformance.MACOf(p.To.Addr()), conformance.MACOf(self)
	dest, source := out[:macBytes], out[macBytes:2*macBytes]
	back := bytes.Equal(dest, in[macBytes:2*macBytes]) && bytes.Equal(source, in[:macBytes])
	if !back && !(bytes.Equal(dest, to[:]) && bytes.Equal(source, by[:])) {
		return fmt.Errorf("a message to %v goes to the link address %x, from %x", p.To, dest, source)
	}
	return nil
}

// Nearby implements [conformance.NearbyTarget].
func (m *XDP) Nearby(key wire.Key) (r conformance.NearbyRead, ok bool, err error) {
	err = m.ReadNearby([]wire.Key{key}, func(_ int, version uint64, epoch uint32, value []byte) {
		r, ok = conformance.NearbyRead{Version: version, Epoch: epoch, Value: string(value)}, true
	})
	return r, ok, err
}

// State implements [conformance.Target].
func (m *XDP) State() (s conformance.State, err error) {
	s.Counters = m.Counts()
	if s.Sessions, err = m.AllSessions(); err != nil {
		return s, err
	}
	s.Objects, err = m.AllObjects()
	return s, err
}

// Datagram is a message that a node sent.
type Datagram struct {
	To      netip.AddrPort
	Message []byte
}

// Receive runs the program on a message from another host of [conformance.Net] and appends the
// messages that the node sends to out, in order.
func (m *XDP) Receive(from netip.AddrPort, message []byte, out []Datagram) ([]Datagram, error) {
	in := frame.Append(nil, &frame.Packet{
		SourceMAC: conformance.MACOf(from.Addr()), DestMAC: conformance.MACOf(m.Self().Addr()),
		From: from, To: m.Self(), Message: message,
	})
	action, frames, err := m.Run(in)
	if err != nil {
		return out, err
	}
	if action == xdp.Passed {
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
