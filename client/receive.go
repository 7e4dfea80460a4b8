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
		if err != nil {
			time.Sleep(tick) // no memory in the kernel, say: this must not become a busy loop
		}
		answers, ends = answers[:0], ends[:0]
		for i := range max(n, 0) {
			answers = decode(p.client, &messages[i], answers)
		}
		var again bool
		if ends, again = p.deliver(answers, ends); again {
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

// decode appends the replies that a datagram carries: it is one, or a bundle of them. Their values are the caller's.
func decode(c *Client, m *ipv4.Message, answers []answer) []answer {
	udp, ok := m.Addr.(*net.UDPAddr)
	if !ok {
		return answers
	}
	at := udp.AddrPort()
	from := netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	datagram, before := m.Buffers[0][:m.N], len(answers)
	if !wire.IsBundle(datagram) || c.guarded() {
		answers = decodeReply(c, datagram, from, answers)
	} else if b := wire.Bundle(datagram); b.Sound() {
		for i := range b.Count() {
			if message, ok := b.Message(i); ok {
				answers = decodeReply(c, message, from, answers)
			}
		}
	}
	keepValues(answers[before:])
	return answers
}

// keepValues copies the values of a datagram out of its buffer, with one allocation. None can grow into the next.
func keepValues(answers []answer) {
	n := 0
	for i := range answers {
		n += len(answers[i].message.Value)
	}
	values := make([]byte, 0, n)
	for i := range answers {
		m := &answers[i].message
		start := len(values)
		values = append(values, m.Value...)
		m.Value = values[start:len(values):len(values)]
	}
}

func decodeReply(c *Client, message []byte, from netip.AddrPort, answers []answer) []answer {
	answers = append(answers, answer{from: from})
	if !c.read(message, from, &answers[len(answers)-1].message) {
		return answers[:len(answers)-1]
	}
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
			if s.kind == wire.OpRead {
				p.reads.note(&answers[i].message)
			}
			ends = p.finish(number, ends)
		case later:
			p.move(s, pausing)
			s.wakeAfter = s.since(now) + s.pause()
		case again:
			p.queue(number)
		}
	}
	return ends, len(p.ready) > 0
}
