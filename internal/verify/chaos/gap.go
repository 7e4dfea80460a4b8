package chaos

import (
	"slices"
	"sync"
	"time"
)

// gap is the longest time without a success, measured while it runs.
type gap struct {
	mu      sync.Mutex
	last    time.Time // success, or start
	longest time.Duration
	until   time.Time // when the longest ended
	count   int
	notable time.Duration                             // a gap of this length
	tell    func(until time.Time, long time.Duration) // is told here
}

func newGap(notable time.Duration, tell func(time.Time, time.Duration)) *gap {
	return &gap{last: time.Now(), notable: notable, tell: tell}
}

// success notes one at this moment.
func (g *gap) success() {
	g.mu.Lock()
	now := time.Now()
	g.count++
	long := g.close(now)
	g.mu.Unlock()
	if g.tell != nil && long >= g.notable {
		g.tell(now, long)
	}
}

func (g *gap) close(now time.Time) time.Duration {
	long := now.Sub(g.last)
	if long > g.longest {
		g.longest, g.until = long, now
	}
	g.last = now
	return long
}

// end ends the measurement and returns the longest gap.
func (g *gap) end() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close(time.Now())
	return g.longest
}

// soFar is the longest gap that has ended.
func (g *gap) soFar() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longest
}

// successes is how many there were.
func (g *gap) successes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// moments are the times of successes since a common start, in order.
type moments []time.Duration

// longestGap is the longest time without a success that begins between two times and ends by a third. At the first time one
// begins in any case, and at the third one ends.
func (m moments) longestGap(from, until, end time.Duration) time.Duration {
	_, longest := m.worstGap(from, until, end)
	return longest
}

// worstGap also tells when that gap began.
func (m moments) worstGap(from, until, end time.Duration) (begin, longest time.Duration) {
	last := from
	note := func(at time.Duration) {
		if last < until && at-last > longest {
			begin, longest = last, at-last
		}
		last = at
	}
	for _, at := range m {
		if at >= from && at <= end {
			note(at)
		}
	}
	note(end)
	return begin, longest
}

// merge puts the moments of several series into one.
func merge(series []moments) moments {
	all := slices.Concat(series...)
	slices.Sort(all)
	return all
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
