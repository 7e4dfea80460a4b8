package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// ours is a chain of this project's nodes, their agents' settling (W9), and clients that repeat a
// write under its number (W2).
type ours struct {
	nodes  []*chain.Node
	keys   []wire.Key
	dirty  [][]uint64 // by node and key: the version in which it was dirty at the last look
	traced bool
}

const (
	ourEpoch    = 1
	ourSessions = 1 << 12
	// beforeSession is the session of the writes before a run. Each write of a run has one of its own, from 1.
	beforeSession = 1 << 32
	// agentSession is the first of the nodes' own.
	agentSession = 1 << 33
)

func newOurs(c *Config) (speaker, error) {
	s := new(ours)
	for key := range c.Keys {
		k, err := wire.HashKey([]byte(keyName(key)))
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, k)
	}
	if err := s.form(c.Nodes); err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		for _, k := range s.keys {
			n.PutObject(k, chain.Object{Version: 1, Committed: 1, Value: []byte(initial)})
		}
	}
	return s, nil
}

// form makes a chain of nodes without objects.
func (s *ours) form(nodes int) error {
	var members []netip.AddrPort
	for node := range nodes {
		members = append(members, nodeAddrPort(node, wire.Port))
	}
	for node := range nodes {
		n := chain.New(
			chain.Options{Shards: 1, CellBytes: valueBytes, MaxObjects: len(s.keys), MaxSessions: ourSessions})
		if err := n.Configure(0, chain.ShardConfig{Epoch: ourEpoch, State: chain.Active, Self: node,
			Members: members}); err != nil {
			return err
		}
		if err := n.Grant(0, chain.Forever); err != nil {
			return err
		}
		s.nodes, s.dirty = append(s.nodes, n), append(s.dirty, make([]uint64, len(s.keys)))
	}
	return nil
}

func (s *ours) clone(traced bool) (speaker, error) {
	c := &ours{keys: s.keys, traced: traced}
	if err := c.form(len(s.nodes)); err != nil {
		return nil, err
	}
	for i, n := range s.nodes {
		for k, o := range n.Objects() {
			c.nodes[i].PutObject(k, *o)
		}
		for k, session := range n.Sessions() {
			c.nodes[i].PutSession(k, session)
		}
	}
	return c, nil
}

func (s *ours) port() uint16 { return wire.Port }

func (s *ours) receive(node int, now time.Duration, p baseline.Packet) ([]baseline.Packet, string) {
	n := s.nodes[node]
	var counts chain.Counters
	if s.traced {
		counts = maps.Clone(n.Counters())
	}
	sends := n.Receive(uint64(now), p.From, p.Payload, nil)
	remark := ""
	for c, count := range n.Counters() {
		if s.traced && count > counts[c] {
			remark = c.Outcome.String()
		}
	}
	return s.packets(node, sends), remark
}

func (s *ours) packets(node int, sends []chain.Send) []baseline.Packet {
	var out []baseline.Packet
	for i := range sends {
		out = append(
			out,
			baseline.Packet{
				From:    nodeAddrPort(node, wire.Port),
				To:      sends[i].To,
				Payload: sends[i].Message.Append(nil),
			},
		)
	}
	return out
}

func (s *ours) readers() int { return len(s.nodes) }

// ask sends writes to the head first and reads to the operation's node, and then to the next node each time.
func (s *ours) ask(op *Record, attempt int) (int, []byte) {
	m := wire.Message{Op: wire.OpRead, Epoch: ourEpoch, Key: s.keys[op.Key], Request: uint64(attempt)}
	first := op.Node
	if op.Write {
		m.Op, m.Value, first = wire.OpPut, []byte(op.Value), 0
		m.Session, m.Seq = uint64(op.Number+1), 1
		if op.Number < 0 {
			m.Session, m.Seq = beforeSession, uint64(-op.Number)
		}
	}
	return (first + attempt - 1) % len(s.nodes), m.Append(nil)
}

func (s *ours) answer(_ *Record, payload []byte) (string, bool) {
	var m wire.Message
	if wire.DecodeReply(payload, &m) != nil || m.Status() != wire.StatusOk {
		return "", false
	}
	return string(m.Value), true
}

// tick acts for the agent on objects that are dirty in the same version as at its last tick.
func (s *ours) tick(node int) []baseline.Packet {
	n := s.nodes[node]
	var sends []chain.Send
	for i, key := range s.keys {
		object, last := n.Objects()[key], s.dirty[node][i]
		s.dirty[node][i] = 0
		if object.Clean() {
			continue
		}
		s.dirty[node][i] = object.Version
		if object.Version != last {
			continue
		}
		session, writer := writerOf(n, key, object.Version)
		if send, ok := chain.Resync(n.Config(0), 0, key, *object, writer, session, agentSession+uint64(node)); ok {
			sends = append(sends, send)
		}
	}
	return s.packets(node, sends)
}

// writerOf returns the session that wrote an object's version, if the node has it.
func writerOf(n *chain.Node, key wire.Key, version uint64) (uint64, chain.Session) {
	for k, session := range n.Sessions() {
		if session.WriterOf(key, version) {
			return k.Session, session
		}
	}
	return 0, chain.Session{}
}

func (s *ours) describe(payload []byte) string {
	var m wire.Message
	if !wire.Peek(payload, &m) {
		return "?"
	}
	key := slices.Index(s.keys, m.Key)
	text := fmt.Sprintf("%v %s", m.Op, keyName(key))
	if len(m.Value) > 0 {
		text += fmt.Sprintf(" %q", m.Value)
	}
	if m.Version > 0 {
		text += fmt.Sprintf(" version %d", m.Version)
	}
	return text
}
