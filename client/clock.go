package client

import "time"

// tick is how often the clock looks at operations under way: the precision of a pipeline's timeouts and pauses.
const tick = time.Millisecond

// longestGap is the time between two looks of the clock after which the process counts as paused. The first look after a
// pause repeats and ends nothing, so that the receiver can take the answers that are in the socket.
const longestGap = 100 * time.Millisecond

// clock repeats attempts that got no answer and ends operations whose time is up. It rests while nothing is under way.
func (p *pipeline) clock() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.toWatch:
		case <-p.closing:
			return
		}
		for p.watch() {
			timer.Reset(tick)
			select {
			case <-timer.C:
			case <-p.closing:
				return
			}
		}
	}
}

// watch looks at every slot once and returns whether any is in use. First it takes the answers that are there: they
// came in time, however late this process runs.
func (p *pipeline) watch() bool {
	p.receiving.Lock()
	p.drain()
	p.receiving.Unlock()
	var ends []finished
	var seen *start // of the slot before; slots that began together mostly lie together
	var cancelled error
	now := time.Now()
	p.mu.Lock()
	paused := !p.excused && now.Sub(p.looked) > longestGap
	p.looked, p.excused = now, paused // one look at a time, or a slow machine would end nothing
	for i := range p.slots {
		s := &p.slots[i]
		if s.state == unused || paused {
			continue
		}
		if s.start != seen {
			seen, cancelled = s.start, s.start.ctx.Err()
		}
		switch due := s.since(now) >= s.wakeAfter; {
		case cancelled != nil:
			s.expire(cancelled)
			ends = p.finish(uint16(i), ends)
		case !now.Before(s.until()):
			s.expire(ErrTimeout)
			ends = p.finish(uint16(i), ends)
		case s.state == waiting && due:
			s.missed(now)
			p.congestion.missed(now, p.client.options.Attempt)
			p.queue(uint16(i))
		case s.state == pausing && due:
			p.queue(uint16(i))
		}
	}
	inUse := len(p.free) < len(p.slots)
	ready := len(p.ready) > 0
	p.mu.Unlock()
	if ready {
		wake(p.toSend)
	}
	report(ends)
	return inUse
}
