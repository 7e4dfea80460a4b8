package client

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/netcraq/netcraq/wire"
)

// receiver takes answers, as many as there are with one system call, to the slots that they name.
func (p *pipeline) receiver() {
	messages := make([]ipv4.Message, batchMessages)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, wire.MaxDatagramBytes)}
	}
	answers := make([]answer, 0, batchMessages)
	var ends []finished
	for {
		n, err := p.packets.ReadBatch(messages, 0)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		answers, ends = answers[:0], ends[:0]
		for i := range max(n, 0) {
			answers = decode(p.client, &messages[i], answers)
		}
		ends, again := p.deliver(answers, ends)
		if again {
			wake(p.toSend)
		}
		report(ends)
		clear(ends)
	}
}

// answer is a received reply.
type answer struct {
	from    netip.AddrPort
	message wire.Message
}

// decode appends a reply, if the datagram is one.
func decode(c *Client, m *ipv4.Message, answers []answer) []answer {
	from, ok := m.Addr.(*net.UDPAddr)
	if !ok {
		return answers
	}
	answers = append(answers, answer{})
	last := &answers[len(answers)-1]
	if !c.read(m.Buffers[0][:m.N], &last.message) {
		return answers[:len(answers)-1]
	}
	at := from.AddrPort()
	last.from = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return answers
}

// deliver lets the calls judge their answers. It returns those that ended, and whether others became ready.
func (p *pipeline) deliver(answers []answer, ends []finished) ([]finished, bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range answers {
		number := uint16(answers[i].message.Request)
		if int(number) >= len(p.slots) || p.slots[number].state == unused {
			continue
		}
		s := &p.slots[number]
		switch s.judge(now, answers[i].from, &answers[i].message) {
		case done:
			p.congestion.answered()
			ends = p.finish(number, ends)
		case later:
			p.move(s, pausing)
			s.wakeAt = now.Add(s.pause())
		}
	}
	return ends, len(p.ready) > 0
}
