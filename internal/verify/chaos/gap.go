package chaos

import (
	"slices"
	"sync"
	"time"
)

// gap measures the longest time without a success.
type gap struct {
	mu      sync.Mutex
	last    time.Time // last success, or start
	longest time.Duration
	until   time.Time // end of the longest gap
	count   int
	notable time.Duration                             // gaps from this length on
	tell    func(until time.Time, long time.Duration) // are reported here
}

func newGap(notable time.Duration, tell func(time.Time, time.Duration)) *gap {
	return &gap{last: time.Now(), notable: notable, tell: tell}
}

// success records a success now.
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

// soFar returns the longest gap that has ended.
func (g *gap) soFar() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longest
}

// successes returns the number of successes.
func (g *gap) successes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// moments are the times of successes since a common start, in order.
type moments []time.Duration

// longestGap returns the longest time without a success among gaps that begin between from and
// until. A gap is open at from in any case, and the last one is cut off at end.
func (m moments) longestGap(from, until, end time.Duration) time.Duration {
	_, longest := m.worstGap(from, until, end)
	return longest
}

// worstGap also returns the beginning of that gap.
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

// merge merges several series.
func merge(series []moments) moments {
	all := slices.Concat(series...)
	slices.Sort(all)
	return all
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
