package netcraqpaper

import (
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Node is one switch, in one chain.
type Node struct{ state State }

// New makes a node whose objects were never written.
func New(c Config) (*Node, error) {
	n := new(Node)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return n, n.Load(Empty(c))
}

// Empty is the state of a node whose registers are all zero.
func Empty(c Config) State {
	s := State{Config: c, Objects: make([]Object, c.Keys)}
	for i := range s.Objects {
		s.Objects[i].Cells = make([]Value, c.Versions)
	}
	return s
}

// Install sets the value of an object on behalf of the control plane, as if the chain had
// acknowledged it.
func (n *Node) Install(key uint32, v Value) error {
	if key >= n.state.Keys {
		return fmt.Errorf("object %d: there are %d", key, n.state.Keys)
	}
	n.state.Objects[key].clean(v)
	return nil
}

// Object returns an object's registers; the caller must not change them.
func (n *Node) Object(key uint32) *Object { return &n.state.Objects[key] }

// Counts are how many packets had which outcome.
func (n *Node) Counts() [Outcomes]uint64 { return n.state.Counts }

// Clone is a node in the same state that shares nothing with this one.
func (n *Node) Clone() *Node { return &Node{n.state.Clone()} }

// Receive handles a packet and appends the packets that leave the node to out, in order. The node
// keeps no reference to either.
func (n *Node) Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet {
	out, _ = n.Handle(p, out)
	return out
}

// Handle is like Receive and also returns the packet's outcome.
func (n *Node) Handle(p baseline.Packet, out []baseline.Packet) ([]baseline.Packet, Outcome) {
	out, outcome := n.receive(p, out)
	n.state.Counts[outcome]++
	return out, outcome
}

func (n *Node) receive(p baseline.Packet, out []baseline.Packet) ([]baseline.Packet, Outcome) {
	if p.To.Addr() != n.state.Self || p.To.Port() != Port {
		return append(out, p), Transit
	}
	m, err := Decode(p.Payload)
	switch {
	case err != nil || m.Op == ReadReply:
		return out, Malformed
	case m.Key >= n.state.Keys:
		return out, OutOfRange
	}
	o := &n.state.Objects[m.Key]
	switch m.Op {
	case Read:
		return n.read(p, m, o, out)
	case Write:
		return n.write(p, m, o, out)
	}
	o.clean(m.Value)
	return out, Acknowledged
}

// read is lines 4 to 14 of Algorithm 1.
func (n *Node) read(p baseline.Packet, m Message, o *Object, out []baseline.Packet) ([]baseline.Packet, Outcome) {
	outcome := CleanRead
	if o.ReadIndex != 0 {
		if !n.state.IsTail() {
			return append(out, p.Redirect(n.state.Tail, p.Payload)), Forwarded
		}
		outcome = DirtyRead
	}
	m.Op, m.Value = ReadReply, o.Cells[o.ReadIndex]
	return append(out, p.Reply(m.Append(nil))), outcome
}

// write is lines 15 to 30.
func (n *Node) write(p baseline.Packet, m Message, o *Object, out []baseline.Packet) ([]baseline.Packet, Outcome) {
	outcome := DirtyWrite
	switch {
	case o.WriteIndex == 0:
		o.clean(m.Value)
		outcome = CleanWrite
	case o.WriteIndex >= n.state.Versions:
		return out, Overflow
	default:
		o.Cells[o.WriteIndex] = m.Value
		o.ReadIndex = o.WriteIndex
		o.WriteIndex++
	}
	if !n.state.IsTail() {
		return append(out, p.Redirect(n.state.Next, p.Payload)), outcome
	}
	o.clean(m.Value)
	m.Op = Acknowledge
	acknowledgement := m.Append(nil)
	out = append(out, p.Reply(acknowledgement))
	for _, member := range n.state.Group {
		out = append(out, baseline.Packet{From: p.To, To: netip.AddrPortFrom(member, Port), Payload: acknowledgement})
	}
	return out, Committed
}

// clean makes a value the only version: it is in the first cell, and the next write is appended behind it.
func (o *Object) clean(v Value) { o.Cells[0], o.ReadIndex, o.WriteIndex = v, 0, 1 }

// Name implements [baseline.Target].
func (n *Node) Name() string { return "the machine" }

// Load implements [baseline.Target].
func (n *Node) Load(s State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	n.state = s.Clone()
	return nil
}

// Step implements [baseline.Target].
func (n *Node) Step(p baseline.Packet) ([]baseline.Packet, error) { return n.Receive(p, nil), nil }

// State implements [baseline.Target].
func (n *Node) State() (State, error) { return n.state.Clone(), nil }

// Close implements [baseline.Target].
func (n *Node) Close() error { return nil }
