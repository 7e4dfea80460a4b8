package conformance

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Now is the clock of all targets, which stands still: any time later than every lease that is long over.
const Now = uint64(24 * time.Hour)

// Reference is the target that defines the right results: internal/node/chain behind the frame layer.
type Reference struct {
	node   *chain.Node
	counts chain.Counters // of frames dropped before a message was read
	sends  []chain.Send
}

// NewReference makes the reference target.
func NewReference() *Reference { return new(Reference) }

// Name implements [Target].
func (t *Reference) Name() string { return "chain" }

// Close implements [Target].
func (t *Reference) Close() error { return nil }

// Reset implements [Target].
func (t *Reference) Reset(o chain.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	t.node, t.counts = chain.New(o), make(chain.Counters)
	return nil
}

// Load implements [Target].
func (t *Reference) Load(s State) error {
	for number, shard := range s.Shards {
		if err := t.node.Configure(number, shard.Config); err != nil {
			return err
		}
		if err := t.node.Grant(number, dataplane.LeaseUntil(Now, shard.Lease)); err != nil {
			return err
		}
	}
	if s.Heart != nil {
		t.node.SetHeart(*s.Heart)
	}
	for k, o := range s.Objects {
		t.node.PutObject(k, o)
	}
	for k, session := range s.Sessions {
		t.node.PutSession(k, session)
	}
	return nil
}

// Step implements [Target].
func (t *Reference) Step(b []byte) (Verdict, [][]byte, error) {
	var p frame.Packet
	outcome, ours := frame.Judge(b, Me, &p)
	if !ours {
		return Pass, [][]byte{b}, nil
	}
	if outcome != wire.Accepted {
		t.counts[chain.Counter{Outcome: outcome}]++
		return Drop, nil, nil
	}
	if wire.IsBundle(p.Message) {
		return t.stepBundle(&p)
	}
	if wire.IsHeartbeat(p.Message) {
		answer := t.node.ReceiveHeartbeat(Now, p.Message, nil)
		if len(answer) == 0 {
			return Drop, nil, nil
		}
		sent, err := wrap(p.From, answer, &p)
		return Sent, [][]byte{sent}, err
	}
	t.sends = t.node.Receive(Now, p.From, p.Message, t.sends[:0])
	if len(t.sends) == 0 {
		return Drop, nil, nil
	}
	frames := make([][]byte, 0, len(t.sends))
	for _, s := range t.sends {
		sent, err := wrap(s.To, s.Message.Append(nil), &p)
		if err != nil {
			return Sent, nil, err
		}
		frames = append(frames, sent)
	}
	return Sent, frames, nil
}

func (t *Reference) stepBundle(p *frame.Packet) (Verdict, [][]byte, error) {
	to, sends := t.node.ReceiveBundle(Now, p.From, p.Message)
	if !sends {
		return Drop, nil, nil
	}
	sent, err := wrap(to, p.Message, p)
	return Sent, [][]byte{sent}, err
}

// wrap builds the frame of a message that the node sends; a message to the sender goes by the Ethernet addresses it
// came with.
func wrap(to netip.AddrPort, message []byte, received *frame.Packet) ([]byte, error) {
	if !to.Addr().Is4() {
		return nil, fmt.Errorf("the chain sent to %v, which is not an IPv4 address", to)
	}
	p := frame.Packet{SourceMAC: MACOf(Me.Addr()), DestMAC: MACOf(to.Addr()), From: Me, To: to, Message: message}
	if to == received.From {
		p.SourceMAC, p.DestMAC = received.DestMAC, received.SourceMAC
	}
	return frame.Append(nil, &p), nil
}

// Nearby implements [NearbyTarget].
func (t *Reference) Nearby(key wire.Key) (NearbyRead, bool, error) {
	o, epoch, ok := t.node.Nearby(Now, key)
	return NearbyRead{o.Version, epoch, string(o.Value)}, ok, nil
}

// State implements [Target].
func (t *Reference) State() (State, error) {
	if err := t.node.CheckInvariants(); err != nil {
		return State{}, err
	}
	s := State{
		Objects:  make(map[wire.Key]chain.Object),
		Sessions: make(map[chain.SessionKey]chain.Session),
		Counters: make(chain.Counters),
	}
	for k, o := range t.node.Objects() {
		c := *o
		c.Value = append([]byte(nil), o.Value...)
		s.Objects[k] = c
	}
	for k, session := range t.node.Sessions() {
		s.Sessions[k] = session
	}
	for _, counts := range []chain.Counters{t.counts, t.node.Counters()} {
		for c, n := range counts {
			s.Counters[c] += n
		}
	}
	return s, nil
}
