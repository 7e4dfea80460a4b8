package client

import (
	"time"

	"golang.org/x/net/ipv4"

	"github.com/netcraq/netcraq/wire"
)

// sender sends what is ready, as many messages as there are with one system call.
func (p *pipeline) sender() {
	out := newOutgoing()
	for {
		select {
		case <-p.toSend:
		case <-p.closing:
			return
		}
		for p.sendReady(out) {
		}
	}
}

// outgoing is the sender's room for one system call.
type outgoing struct {
	messages [batchMessages]ipv4.Message
	buffers  [batchMessages][]byte
	slots    [batchMessages]uint16
	uses     [batchMessages]uint64
	n        int
	ends     []finished
}

func newOutgoing() *outgoing {
	out := new(outgoing)
	for i := range out.messages {
		out.buffers[i] = make([]byte, 0, wire.MaxDatagramBytes)
		out.messages[i].Buffers = make([][]byte, 1)
	}
	return out
}

// sendReady sends one batch and returns whether there was one.
func (p *pipeline) sendReady(out *outgoing) bool {
	p.mu.Lock()
	p.encode(out)
	p.mu.Unlock()
	report(out.ends)
	if out.n == 0 {
		return len(out.ends) > 0
	}
	for sent := 0; sent < out.n; {
		n, err := p.packets.WriteBatch(out.messages[sent:out.n], 0)
		sent += max(n, 0)
		if err != nil && sent < out.n {
			p.unsent(out.slots[sent], out.uses[sent], err)
			sent++
		}
	}
	return true
}

// encode takes ready slots, as many as may be under way, and writes their next attempts. The caller holds the lock.
func (p *pipeline) encode(out *outgoing) {
	out.n, out.ends = 0, out.ends[:0]
	now, taken := time.Now(), 0
	for _, i := range p.ready {
		if out.n == batchMessages || !p.congestion.room(p.inFlight) {
			break
		}
		taken++
		s := &p.slots[i]
		if s.state != queued {
			continue // it ended, and perhaps another operation has the slot
		}
		message, to, ok := s.next(now, p.client.requestID(i), out.buffers[out.n])
		if !ok {
			out.ends = p.finish(i, out.ends)
			continue
		}
		p.move(s, waiting)
		s.wakeAt = now.Add(s.patience())
		out.messages[out.n].Buffers[0] = message
		out.messages[out.n].Addr = to.udp
		out.slots[out.n], out.uses[out.n] = i, s.use
		out.n++
	}
	p.ready = p.ready[:copy(p.ready, p.ready[taken:])]
}

// unsent has an attempt that did not leave repeated after a pause.
func (p *pipeline) unsent(i uint16, use uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := &p.slots[i]; s.use == use && s.state == waiting {
		s.call.unsent(err)
		p.move(s, pausing)
		s.wakeAt = time.Now().Add(s.pause())
	}
}
