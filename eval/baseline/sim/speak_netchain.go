package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// valueBytes is the room for a value at the nodes of a run.
const valueBytes = 16

// netchainSpeaker is a chain of NetChain's nodes, and its agents.
type netchainSpeaker struct {
	wide, traced bool
	nodes        []*netchain.Node
}

func newNetChain(c *Config) (speaker, error) {
	s := &netchainSpeaker{wide: c.Protocol == NetChain32}
	for node := range c.Nodes {
		n, err := newNetChainNode(c, node, s.wide)
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

func (s *netchainSpeaker) clone(traced bool) (speaker, error) {
	c := &netchainSpeaker{wide: s.wide, traced: traced}
	for _, n := range s.nodes {
		c.nodes = append(c.nodes, n.Clone())
	}
	return c, nil
}

func newNetChainNode(c *Config, node int, wide bool) (*netchain.Node, error) {
	n, err := netchain.New(
		netchain.Config{Self: nodeAddr(node), Wide: wide, Slots: c.Keys, ValueBytes: valueBytes, Groups: 1})
	if err != nil {
		return nil, err
	}
	for key := range c.Keys {
		if err := n.Insert(netchainKey(key), 0, []byte(initial)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func netchainKey(key int) (k netchain.Key) {
	binary.BigEndian.PutUint64(k[len(k)-8:], uint64(key))
	return k
}

func (s *netchainSpeaker) port() uint16 { return netchain.Port }

func (s *netchainSpeaker) receive(node int, _ time.Duration, p baseline.Packet) ([]baseline.Packet, string) {
	sent, outcome := s.nodes[node].Handle(p, nil)
	if !s.traced {
		return sent, ""
	}
	return sent, s.remark(node, p, outcome)
}

func (s *netchainSpeaker) remark(node int, p baseline.Packet, o netchain.Outcome) string {
	m, err := netchain.Decode(p.Payload)
	cell, ok := s.nodes[node].Lookup(m.Key)
	if err != nil || !ok {
		return o.String()
	}
	switch o {
	case netchain.Stale:
		return fmt.Sprintf("drops seq %d: its own is %d", m.Seq, cell.Seq)
	case netchain.Ordered:
		return fmt.Sprintf("orders %q as seq %d", m.Value, cell.Seq)
	case netchain.Accepted:
		return fmt.Sprintf("accepts %q, seq %d", m.Value, cell.Seq)
	}
	return o.String()
}

// readers: the tail alone.
func (s *netchainSpeaker) readers() int { return 1 }

// ask sends writes to the head and reads to the tail, again and again.
func (s *netchainSpeaker) ask(op *Record, _ int) (int, []byte) {
	m := netchain.Message{Op: netchain.Read, Wide: s.wide, Key: netchainKey(op.Key)}
	node, step := len(s.nodes)-1, -1
	if op.Write {
		m.Op, m.Value = netchain.Write, []byte(op.Value)
		node, step = 0, 1
	}
	for next := node + step; next >= 0 && next < len(s.nodes); next += step {
		m.List = append(m.List, nodeAddr(next))
	}
	return node, m.Append(nil)
}

func (s *netchainSpeaker) answer(op *Record, payload []byte) (string, bool) {
	m, err := netchain.Decode(payload)
	if err != nil || m.Op == netchain.NotFound {
		return "", false
	}
	return string(m.Value), op.Write == (m.Op == netchain.WriteReply)
}

func (s *netchainSpeaker) tick(int) []baseline.Packet { return nil }

func (s *netchainSpeaker) describe(payload []byte) string {
	m, err := netchain.Decode(payload)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%v %s", m.Op, keyName(int(m.Key[len(m.Key)-1])))
	if m.Op != netchain.Read {
		text += fmt.Sprintf(" %q seq %d", m.Value, m.Seq)
	}
	return text
}
