package client

import (
	"sync/atomic"
	"time"
)

// minAttempt is the least time that an attempt gets, unless [Options].Attempt is shorter: below it, the scheduling of
// this machine and of the nodes' tells more than the network does.
const minAttempt = time.Millisecond

// estimate is the time to an answer, as TCP measures it (RFC 6298). Every attempt has an id of its own, so that late
// answers count too, for the attempt that they belong to. Samples taken at once may lose one: that does no harm.
type estimate struct {
	mean, deviation atomic.Int64 // nanoseconds; a mean of 0: never measured
}

func (e *estimate) sample(d time.Duration) {
	s := max(int64(d), 1)
	mean := e.mean.Load()
	if mean == 0 {
		e.mean.Store(s)
		e.deviation.Store(s / 2)
		return
	}
	off := s - mean
	deviation := e.deviation.Load()
	e.deviation.Store(deviation + (max(off, -off)-deviation)/4)
	e.mean.Store(max(mean+off/8, 1))
}

// timeout returns how long to wait for an answer before it counts as lost: least to limit.
func (e *estimate) timeout(least, limit time.Duration) time.Duration {
	mean := e.mean.Load()
	if mean == 0 {
		return limit
	}
	return min(max(time.Duration(mean+4*e.deviation.Load()), least), limit)
}

// nearness orders nodes by how fast they answer reads themselves.
type nearness struct{ rtt atomic.Int64 } // nanoseconds; 0: never measured

// measured takes one sample of the time to an answer. A much better one replaces the average, so that a node that was
// unreachable is soon trusted again; a much worse one, which is mostly the client's own machine being busy, counts as
// twice the average.
func (n *nearness) measured(sample time.Duration) {
	old := n.rtt.Load()
	if old == 0 || int64(sample) < old/2 {
		n.rtt.Store(max(int64(sample), 1))
		return
	}
	n.rtt.Store(old + (min(int64(sample), 2*old)-old)/8)
}

// missed notes that the node did not answer in time.
func (n *nearness) missed(timeout time.Duration) {
	if n.rtt.Load() < int64(timeout) {
		n.rtt.Store(int64(timeout))
	}
}
