// Package seeded has what simulated worlds share: events in the order of a clock that only they move, and runs of
// many seeds.
package seeded

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Clock is a queue of events. Events of one moment happen in the order in which they were planned.
type Clock struct {
	Now   uint64 // nanoseconds
	Steps int    // events that happened
	order uint64
	queue queue
}

type event struct {
	at, order uint64
	do        func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// After plans something.
func (c *Clock) After(d uint64, do func()) {
	c.order++
	heap.Push(&c.queue, event{c.Now + d, c.order, do})
}

// Step makes the next thing happen.
func (c *Clock) Step() {
	e := heap.Pop(&c.queue).(event)
	c.Now = e.at
	c.Steps++
	e.do()
}

// Until makes everything happen before a moment, as long as wanted says so.
func (c *Clock) Until(end uint64, wanted func() bool) {
	for c.queue.Len() > 0 && c.queue[0].at < end && wanted() {
		c.Step()
	}
}

// Note returns a line of a trace.
func (c *Clock) Note(format string, args ...any) string {
	return fmt.Sprintf("%10.3f ms  ", float64(c.Now)/1e6) + fmt.Sprintf(format, args...)
}

// WriteTrace prints the end of a trace.
func WriteTrace(out io.Writer, trace []string, most int) error {
	for _, line := range trace[max(0, len(trace)-most):] {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// Tally counts runs and the violations that they found.
type Tally struct {
	Seeds      uint64
	Violations int
	Kinds      map[string]int // violations by the word before the colon
	First      uint64         // the lowest seed with a violation
	Why        string         // of that seed
}

// Count counts a run. broken is the first check that failed; empty: none did.
func (t *Tally) Count(seed uint64, broken string) {
	t.Seeds++
	if broken == "" {
		return
	}
	kind, _, _ := strings.Cut(broken, ":")
	t.Kinds[kind]++
	t.Violations++
	if t.Violations == 1 || seed < t.First {
		t.First, t.Why = seed, broken
	}
}

// AllFaults lists the kinds of faults below end.
func AllFaults[F ~int](end F) iter.Seq[F] {
	return func(yield func(F) bool) {
		for f := range end {
			if !yield(f) {
				return
			}
		}
	}
}

// FaultCounts names the counts of faults of the kinds F.
func FaultCounts[F interface {
	~int | ~uint8
	String() string
}](counts []int) map[string]int {
	named := make(map[string]int)
	for f, n := range counts {
		named[F(f).String()] = n
	}
	return named
}

// ParseRule returns the rule with a name, or none without a name. names are in the order of the rules' bits.
func ParseRule[R ~uint32 | ~uint64](names []string, name string) (R, error) {
	if name == "" {
		return 0, nil
	}
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("rule %q cannot be switched off: want one of %s", name, strings.Join(names, ", "))
	}
	return 1 << i, nil
}

const reportEvery = 2 * time.Second

// Many runs seeds that follow each other, some at a time, until all are done or ctx ends. add takes the results one
// at a time; report is called now and then, and never at the same time as add.
func Many[R any](ctx context.Context, first, seeds uint64, jobs int, run func(seed uint64) R, add func(seed uint64, r R), report func()) {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		next  uint64
		told  = time.Now()
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == seeds || ctx.Err() != nil {
			return 0, false
		}
		next++
		return first + next - 1, true
	}
	for range max(1, jobs) {
		group.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				r := run(seed)
				mu.Lock()
				add(seed, r)
				if time.Since(told) > reportEvery {
					told = time.Now()
					report()
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
}
