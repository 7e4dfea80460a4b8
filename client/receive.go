package client

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/netcraq/netcraq/wire"
)

// inbox has the buffers of received datagrams, the answers in them and the operations that these end. One goroutine at a
// time uses it.
type inbox struct {
	messages []ipv4.Message
	answers  []answer
	ends     []finished
}

func newInbox(messages int) *inbox {
	in := &inbox{messages: make([]ipv4.Message, messages)}
	for i := range in.messages {
		in.messages[i].Buffers = [][]byte{make([]byte, wire.MaxDatagramBytes)}
	}
	return in
}

// receiver waits for answers and takes them, as many as there are with one system call, to the slots that they name.
func (p *pipeline) receiver() {
	in := newInbox(batchMessages)
	for {
		n, err := p.packets.ReadBatch(in.messages, 0)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(tick) // no memory in the kernel, say: this must not become a busy loop
		}
		p.receiving.Lock()
		p.accept(in, n)
		p.receiving.Unlock()
	}
}

// drainMessages is how many datagrams drain takes with one system call: few, because often there is none.
const drainMessages = 16

// drain takes the answers that are in the socket. It does not wait. The caller holds receiving.
func (p *pipeline) drain() {
	for p.present != nil {
		n, err := p.present.ReadBatch(p.in.messages, dontWait)
		p.accept(p.in, n)
		if err != nil || n < len(p.in.messages) {
			return
		}
	}
}

// accept takes n received datagrams. The caller holds receiving.
func (p *pipeline) accept(in *inbox, n int) {
	in.answers, in.ends = in.answers[:0], in.ends[:0]
	for i := range max(n, 0) {
		in.answers = decode(p.client, &in.messages[i], in.answers)
	}
	if len(in.answers) == 0 {
		return
	}
	var again bool
	if in.ends, again = p.deliver(in.answers, in.ends); again {
		wake(p.toSend)
	}
	report(in.ends)
	clear(in.ends)
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
