package netchain

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Node is one switch. It serves any number of chains, because the chain is in the packet.
type Node struct{ state State }

// New makes a node whose register arrays are empty.
func New(c Config) (*Node, error) {
	n := new(Node)
	return n, n.Load(State{Config: c, Cells: make([]Cell, c.Slots)})
}

// Insert is the control plane's insert: it gives a key the first free place, with a value and the
// number that its last write had elsewhere.
func (n *Node) Insert(k Key, seq uint32, value []byte) error {
	slot, ok := n.state.Index[k]
	if !ok {
		if slot, ok = n.free(); !ok {
			return fmt.Errorf("all %d places are taken: delete a key, or make the arrays larger", n.state.Slots)
		}
	}
	if len(value) > n.state.ValueBytes {
		return fmt.Errorf("a value of %d bytes: the node has room for %d", len(value), n.state.ValueBytes)
	}
	n.state.Index[k] = slot
	n.state.Cells[slot] = Cell{seq & n.mask(), bytes.Clone(value)}
	return nil
}

func (n *Node) free() (uint32, bool) {
	taken := make(map[uint32]bool, len(n.state.Index))
	for _, slot := range n.state.Index {
		taken[slot] = true
	}
	for slot := range uint32(n.state.Slots) {
		if !taken[slot] {
			return slot, true
		}
	}
	return 0, false
}

// Delete is the control plane's delete.
func (n *Node) Delete(k Key) { delete(n.state.Index, k) }

// SetRule installs a failure rule, and the zero rule removes it.
func (n *Node) SetRule(t Target, r Rule) error {
	if r == (Rule{}) {
		delete(n.state.Rules, t)
		return nil
	}
	probe := State{Config: n.state.Config, Cells: n.state.Cells, Rules: map[Target]Rule{t: r}}
	if err := probe.Validate(); err != nil {
		return err
	}
	n.state.Rules[t] = r
	return nil
}

// Lookup returns a key's number and value; the caller must not change it.
func (n *Node) Lookup(k Key) (Cell, bool) {
	slot, ok := n.state.Index[k]
	if !ok {
		return Cell{}, false
	}
	return n.state.Cells[slot], true
}

// Counts are how many packets had which outcome.
func (n *Node) Counts() [Outcomes]uint64 { return n.state.Counts }

// mask has the bits of SEQ.
func (n *Node) mask() uint32 {
	if n.state.Wide {
		return 1<<32 - 1
	}
	return 1<<16 - 1
}

// Clone is a node in the same state that shares nothing with this one.
func (n *Node) Clone() *Node { return &Node{n.state.Clone()} }

// Receive handles a packet and appends the packets that leave the node to out. The node keeps no
// reference to either.
func (n *Node) Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet {
	out, _ = n.Handle(p, out)
	return out
}

// Handle is like Receive and also returns the packet's outcome.
func (n *Node) Handle(p baseline.Packet, out []baseline.Packet) ([]baseline.Packet, Outcome) {
	sent, outcome := n.receive(p)
	n.state.Counts[outcome]++
	if !sent.To.IsValid() {
		return out, outcome
	}
	return append(out, sent), outcome
}

// receive returns the packet that leaves the node; the zero packet means none. Failure rules for
// the packet's destination apply first: they may redirect it to this node.
func (n *Node) receive(p baseline.Packet) (baseline.Packet, Outcome) {
	if p.To.Port() != Port {
		return p, Transit
	}
	m, err := Decode(p.Payload)
	if p.To.Addr() != n.state.Self {
		if err != nil || m.Wide != n.state.Wide {
			return p, Transit
		}
		var outcome Outcome
		if p, outcome = n.route(p, &m, Transit); p.To != netip.AddrPortFrom(n.state.Self, Port) {
			return p, outcome
		}
	}
	if err != nil || m.Wide != n.state.Wide || !m.Op.request() {
		return baseline.Packet{}, Malformed
	}
	slot, ok := n.state.Index[m.Key]
	if !ok {
		return answer(p, &m, NotFound, m.Seq, nil), Missing
	}
	cell := &n.state.Cells[slot]
	switch m.Op {
	case Read:
		if len(m.Value) > 0 {
			return baseline.Packet{}, Malformed
		}
		return answer(p, &m, ReadReply, cell.Seq, cell.Value), Answered
	case CAS:
		return n.compare(p, &m, cell)
	}
	return n.write(p, &m, cell)
}

// answer goes back to the client, without a list.
func answer(p baseline.Packet, m *Message, op Op, seq uint32, value []byte) baseline.Packet {
	reply := Message{Op: op, Wide: m.Wide, Seq: seq, Key: m.Key, Value: value}
	return p.Reply(reply.Append(nil))
}

// compare decides a CAS at the head. A CAS that succeeds continues as a WRITE of the new value.
func (n *Node) compare(p baseline.Packet, m *Message, cell *Cell) (baseline.Packet, Outcome) {
	if len(m.Value) != 2*CompareBytes || m.Seq != 0 {
		return baseline.Packet{}, Malformed
	}
	if !bytes.Equal(cell.Value, m.Value[:CompareBytes]) {
		return answer(p, m, CASFail, cell.Seq, cell.Value), Refused
	}
	m.Op, m.Value = Write, m.Value[CompareBytes:]
	return n.write(p, m, cell)
}

// write numbers a write that comes from a client, accepts a newer one, drops any other, and sends it
// on or answers.
func (n *Node) write(p baseline.Packet, m *Message, cell *Cell) (baseline.Packet, Outcome) {
	if len(m.Value) > n.state.ValueBytes {
		return baseline.Packet{}, Malformed
	}
	outcome := Accepted
	switch {
	case m.Seq == 0:
		m.Seq, outcome = (cell.Seq+1)&n.mask(), Ordered
	case m.Seq <= cell.Seq:
		return baseline.Packet{}, Stale
	}
	cell.Seq, cell.Value = m.Seq, append(cell.Value[:0], m.Value...)
	if len(m.List) == 0 {
		return answer(p, m, WriteReply, m.Seq, m.Value), outcome
	}
	next := m.List[0]
	m.List = m.List[1:]
	return n.route(p.Redirect(next, m.Append(nil)), m, outcome)
}

// route sends a packet to its destination, or as failure rules demand. m is the packet's message.
// A packet without a matching rule has the given outcome.
func (n *Node) route(p baseline.Packet, m *Message, outcome Outcome) (baseline.Packet, Outcome) {
	for {
		rule, ok := n.state.Rules[Target{p.To.Addr(), m.Key.Group(n.state.Groups)}]
		if !ok {
			return p, outcome
		}
		if outcome == Transit {
			outcome = Redirected
		}
		switch {
		case rule.Action == Replace:
			return p.Redirect(rule.By, p.Payload), outcome
		case rule.Action == Block || len(m.List) == 0 && (m.Op != Write || m.Seq == 0):
			return baseline.Packet{}, Blocked
		case len(m.List) == 0:
			return answer(p, m, WriteReply, m.Seq, m.Value), outcome
		}
		p.To = netip.AddrPortFrom(m.List[0], p.To.Port())
		m.List = m.List[1:]
		p.Payload = m.Append(nil)
	}
}

// Name implements [baseline.Target].
func (n *Node) Name() string { return "the machine" }

// Load implements [baseline.Target].
func (n *Node) Load(s State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	n.state = s.Clone()
	if n.state.Index == nil {
		n.state.Index = make(map[Key]uint32)
	}
	if n.state.Rules == nil {
		n.state.Rules = make(map[Target]Rule)
	}
	return nil
}

// Step implements [baseline.Target].
func (n *Node) Step(p baseline.Packet) ([]baseline.Packet, error) { return n.Receive(p, nil), nil }

// State implements [baseline.Target].
func (n *Node) State() (State, error) { return n.state.Clone(), nil }

// Close implements [baseline.Target].
func (n *Node) Close() error { return nil }
