package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

// netcraqPaperSpeaker is a chain of NetCRAQ's nodes as published, and their clients.
type netcraqPaperSpeaker struct {
	traced bool
	nodes  []*netcraqpaper.Node
}

func newNetCRAQPaper(c *Config) (speaker, error) {
	s := new(netcraqPaperSpeaker)
	for node := range c.Nodes {
		config := netcraqpaper.Config{
			Self: nodeAddr(
				node), Tail: nodeAddr(c.Nodes - 1), Keys: uint32(c.Keys), Versions: netcraqpaper.DefaultVersions,
		}
		for other := range c.Nodes {
			if other != node {
				config.Group = append(config.Group, nodeAddr(other))
			}
		}
		if node < c.Nodes-1 {
			config.Next = nodeAddr(node + 1)
		}
		n, err := netcraqpaper.New(config)
		if err != nil {
			return nil, err
		}
		for key := range uint32(c.Keys) {
			if err := n.Install(key, netcraqPaperValue(initial)); err != nil {
				return nil, err
			}
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

func (s *netcraqPaperSpeaker) clone(traced bool) (speaker, error) {
	c := &netcraqPaperSpeaker{traced: traced}
	for _, n := range s.nodes {
		c.nodes = append(c.nodes, n.Clone())
	}
	return c, nil
}

func netcraqPaperValue(text string) (v netcraqpaper.Value) {
	copy(v[:], text)
	return v
}

func (s *netcraqPaperSpeaker) port() uint16 { return netcraqpaper.Port }

func (s *netcraqPaperSpeaker) receive(node int, _ time.Duration, p baseline.Packet) ([]baseline.Packet, string) {
	sent, outcome := s.nodes[node].Handle(p, nil)
	if !s.traced {
		return sent, ""
	}
	return sent, s.remark(node, p, outcome)
}

func (s *netcraqPaperSpeaker) remark(node int, p baseline.Packet, o netcraqpaper.Outcome) string {
	m, err := netcraqpaper.Decode(p.Payload)
	if err != nil {
		return o.String()
	}
	object := s.nodes[node].Object(m.Key)
	switch o {
	case netcraqpaper.DirtyWrite:
		return fmt.Sprintf("%v: %v in cell %d of %d", o, m.Value, object.ReadIndex, len(object.Cells))
	case netcraqpaper.Overflow:
		return fmt.Sprintf("drops the write: write_index is %d of %d", object.WriteIndex, len(object.Cells))
	case netcraqpaper.Acknowledged, netcraqpaper.Committed:
		return fmt.Sprintf("%v: %v is the only version", o, m.Value)
	}
	return o.String()
}

func (s *netcraqPaperSpeaker) readers() int { return len(s.nodes) }

// ask sends writes to the head first and reads to the operation's node, and then to the next node each time.
func (s *netcraqPaperSpeaker) ask(op *Record, attempt int) (int, []byte) {
	m := netcraqpaper.Message{Op: netcraqpaper.Read, Key: uint32(op.Key)}
	first := op.Node
	if op.Write {
		m.Op, m.Value, first = netcraqpaper.Write, netcraqPaperValue(op.Value), 0
	}
	return (first + attempt - 1) % len(s.nodes), m.Append(nil)
}

func (s *netcraqPaperSpeaker) answer(op *Record, payload []byte) (string, bool) {
	m, err := netcraqpaper.Decode(payload)
	if err != nil {
		return "", false
	}
	return strings.TrimRight(string(m.Value[:]), "\x00"), op.Write == (m.Op == netcraqpaper.Acknowledge)
}

func (s *netcraqPaperSpeaker) tick(int) []baseline.Packet { return nil }

func (s *netcraqPaperSpeaker) describe(payload []byte) string {
	m, err := netcraqpaper.Decode(payload)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%v %s", m.Op, keyName(int(m.Key)))
	if m.Op != netcraqpaper.Read {
		text += " " + m.Value.String()
	}
	return text
}
