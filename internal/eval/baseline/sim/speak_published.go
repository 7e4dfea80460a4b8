package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/published"
)

// publishedSpeaker is a chain of NetCRAQ's nodes as published, and their clients.
type publishedSpeaker struct {
	traced bool
	nodes  []*published.Node
}

func newPublished(c *Config) (speaker, error) {
	s := new(publishedSpeaker)
	for node := range c.Nodes {
		config := published.Config{
			Self: nodeAddr(node), Tail: nodeAddr(c.Nodes - 1), Keys: uint32(c.Keys), Versions: published.DefaultVersions,
		}
		for other := range c.Nodes {
			if other != node {
				config.Group = append(config.Group, nodeAddr(other))
			}
		}
		if node < c.Nodes-1 {
			config.Next = nodeAddr(node + 1)
		}
		n, err := published.New(config)
		if err != nil {
			return nil, err
		}
		for key := range uint32(c.Keys) {
			if err := n.Install(key, publishedValue(initial)); err != nil {
				return nil, err
			}
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

func (s *publishedSpeaker) clone(traced bool) (speaker, error) {
	c := &publishedSpeaker{traced: traced}
	for _, n := range s.nodes {
		c.nodes = append(c.nodes, n.Clone())
	}
	return c, nil
}

func publishedValue(text string) (v published.Value) {
	copy(v[:], text)
	return v
}

func (s *publishedSpeaker) port() uint16 { return published.Port }

func (s *publishedSpeaker) receive(node int, _ time.Duration, p baseline.Packet) ([]baseline.Packet, string) {
	sent, outcome := s.nodes[node].Handle(p, nil)
	if !s.traced {
		return sent, ""
	}
	return sent, s.remark(node, p, outcome)
}

func (s *publishedSpeaker) remark(node int, p baseline.Packet, o published.Outcome) string {
	m, err := published.Decode(p.Payload)
	if err != nil {
		return o.String()
	}
	object := s.nodes[node].Object(m.Key)
	switch o {
	case published.DirtyWrite:
		return fmt.Sprintf("%v: %v in cell %d of %d", o, m.Value, object.ReadIndex, len(object.Cells))
	case published.Overflow:
		return fmt.Sprintf("drops the write: write_index is %d of %d", object.WriteIndex, len(object.Cells))
	case published.Acknowledged, published.Committed:
		return fmt.Sprintf("%v: %v is the only version", o, m.Value)
	}
	return o.String()
}

func (s *publishedSpeaker) readers() int { return len(s.nodes) }

// ask sends writes to the head first and reads to the operation's node, and then to the next node each time.
func (s *publishedSpeaker) ask(op *Record, attempt int) (int, []byte) {
	m := published.Message{Op: published.Read, Key: uint32(op.Key)}
	first := op.Node
	if op.Write {
		m.Op, m.Value, first = published.Write, publishedValue(op.Value), 0
	}
	return (first + attempt - 1) % len(s.nodes), m.Append(nil)
}

func (s *publishedSpeaker) answer(op *Record, payload []byte) (string, bool) {
	m, err := published.Decode(payload)
	if err != nil {
		return "", false
	}
	return strings.TrimRight(string(m.Value[:]), "\x00"), op.Write == (m.Op == published.Acknowledge)
}

func (s *publishedSpeaker) tick(int) []baseline.Packet { return nil }

func (s *publishedSpeaker) describe(payload []byte) string {
	m, err := published.Decode(payload)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%v %s", m.Op, keyName(int(m.Key)))
	if m.Op != published.Read {
		text += " " + m.Value.String()
	}
	return text
}
