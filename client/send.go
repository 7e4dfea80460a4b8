package client

import (
	"runtime"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// sender sends for goroutines that do not send themselves. It lets goroutines that are ready to run go first: perhaps
// they have something to send too.
func (p *pipeline) sender() {
	for {
		select {
		case <-p.toSend:
		case <-p.closing:
			return
		}
		runtime.Gosched()
		p.send()
	}
}

// inOneGo is how many system calls one caller makes for others at most.
const inOneGo = 8

// send sends all ready messages, as many datagrams as possible in one system call. If another goroutine is sending,
// it sends these messages too. Messages that are ready at the same moment and go the same way share a datagram; none
// waits for another.
func (p *pipeline) send() {
	for range inOneGo {
		if !p.waiting() || !p.sending.TryLock() {
			return
		}
		p.sendReady(p.out)
		p.sending.Unlock()
		if p.receiving.TryLock() { // else another goroutine takes the answers
			p.drain()
			p.receiving.Unlock()
		}
	}
	wake(p.toSend)
}

// waiting reports whether something could be sent.
func (p *pipeline) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready) > 0 && p.congestion.allows(p.inFlight)
}

// sendReady sends one batch. The caller has the sender's place.
func (p *pipeline) sendReady(out *outgoing) {
	p.mu.Lock()
	now := time.Now()
	p.load(out, now)
	out.couple(now, p.trains)
	p.encode(out, now)
	p.mu.Unlock()
	report(out.ends)
	messages := out.messages[:out.coupled]
	for n, t := range out.trains[:out.coupled] {
		t.fill(&messages[n])
		if len(t) > 1 {
			p.client.trains.Add(1)
		}
	}
	for sent := 0; sent < len(messages); {
		n, err := p.packets.WriteBatch(messages[sent:], 0)
		sent += max(n, 0)
		if err != nil && sent < len(messages) {
			p.sendSingly(out.trains[sent], err)
			sent++
		}
	}
}

// sendSingly sends the datagrams of a train that the kernel refused to cut. If another error kept the train from being
// sent, its attempts are repeated.
func (p *pipeline) sendSingly(t train, err error) {
	cut := len(t) > 1 && refusesTrains(err)
	if cut {
		p.client.refused.Add(1)
		p.mu.Lock()
		t[0].to.ways[p.out.pipeline].refused = time.Now()
		p.mu.Unlock()
	}
	for _, d := range t {
		if cut {
			_, err = p.conn.WriteToUDPAddrPort(d.buffer, d.to.addr)
		}
		if err != nil {
			p.unsent(d, err)
		}
	}
}

// load distributes ready slots, as many as may be under way, among datagrams. The caller holds the lock.
func (p *pipeline) load(out *outgoing, now time.Time) {
	out.clear()
	taken := 0
	for _, i := range p.ready {
		if !p.congestion.allows(p.inFlight) {
			break
		}
		s := &p.slots[i]
		if s.state != queued {
			taken++
			continue // it ended, and perhaps another operation has the slot
		}
		place, ok := s.aim()
		if ok && !out.add(item{i, uint8(place), s.use}, &s.call, p.reads.bytes(), now) {
			break
		}
		taken++
		if ok {
			p.move(s, waiting)
		} else {
			out.ends = p.finish(i, out.ends)
		}
	}
	p.ready = p.ready[:copy(p.ready, p.ready[taken:])]
}

// encode writes the attempts of loaded slots. The caller holds the lock, still the one that it loaded under.
func (p *pipeline) encode(out *outgoing, now time.Time) {
	for n := range out.n {
		d := &out.datagrams[n]
		if len(d.items) > 1 {
			p.encodeBundle(d, now)
		} else {
			i := d.items[0]
			d.buffer = p.slots[i.slot].encode(now, p.client.requestID(i.slot), int(i.place), d.buffer[:0])
		}
		for _, i := range d.items {
			s := &p.slots[i.slot]
			s.wakeAfter = s.since(now) + s.patience()
		}
	}
}

func (p *pipeline) encodeBundle(d *datagram, now time.Time) {
	p.client.bundles.Add(1)
	b := wire.NewBundle(d.buffer, len(d.items), d.slotBytes)
	var m wire.Message
	for n, i := range d.items {
		p.slots[i.slot].fire(now, p.client.requestID(i.slot), int(i.place), d.way, &m)
		b.Put(n, &m) // it fits: the slots are as long as the longest needs
	}
	d.buffer = b
}

// unsent has attempts that did not leave repeated after a pause.
func (p *pipeline) unsent(d *datagram, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(d.items) > 1 {
		d.way.missed(time.Now(), time.Now())
	}
	for _, item := range d.items {
		if s := &p.slots[item.slot]; s.use == item.use && s.state == waiting {
			s.call.unsent(err)
			p.move(s, pausing)
			s.wakeAfter = s.since(time.Now()) + s.pause()
		}
	}
}
