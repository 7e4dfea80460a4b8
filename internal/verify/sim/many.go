package sim

import (
	"context"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// Options say which runs are made.
type Options struct {
	First, Seeds uint64
	Jobs         int // at a time; each has planes of its own
	Draw         func(seed uint64) Config
	Plane        Plane
	Report       func(*Total)                    // called now and then; nil: never
	Found        func(seed uint64, v *Violation) // called for each; nil: never. Both by one goroutine at a time
}

// Total is the sum of the results of many seeds.
type Total struct {
	Seeds            uint64
	Ops              int
	Unknown          int
	Undecided        int // histories that took too long to check
	Steps            int
	Reconfigurations int
	Returns          int
	StepBacks        int
	Collected        int
	Forgotten        int
	Refused          int
	Simulated        time.Duration
	Lost             int
	Faults           [faults]int
	Violations       int
	First            uint64 // the lowest seed with a violation
	Why              string // of that seed
}

// reportEvery is how often progress is reported.
const reportEvery = 2 * time.Second

// Many runs seeds that follow each other, until all are done or ctx ends.
func Many(ctx context.Context, o Options) (*Total, error) {
	var (
		total  Total
		mu     sync.Mutex
		group  sync.WaitGroup
		failed error
		next   uint64
		told   = time.Now()
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == o.Seeds || ctx.Err() != nil || failed != nil {
			return 0, false
		}
		next++
		return o.First + next - 1, true
	}
	for range max(1, o.Jobs) {
		group.Go(func() {
			planes := NewPlanes()
			defer planes.Close()
			for seed, ok := take(); ok; seed, ok = take() {
				c := o.Draw(seed)
				r, err := Run(c, planes)
				var v *Violation
				if err == nil {
					v = Judge(&c, r)
				}
				mu.Lock()
				if err != nil && failed == nil {
					failed = err
				}
				if err == nil {
					total.add(seed, r, v)
				}
				if v != nil && o.Found != nil {
					o.Found(seed, v)
				}
				if o.Report != nil && time.Since(told) > reportEvery {
					told = time.Now()
					o.Report(&total)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return &total, failed
}

func (t *Total) add(seed uint64, r *Result, v *Violation) {
	t.Seeds++
	t.Ops += len(r.History)
	t.Steps += r.Steps
	t.Reconfigurations += r.Reconfigurations
	t.Returns += r.Returns
	t.StepBacks += r.StepBacks
	t.Collected += r.Collected
	t.Forgotten += r.Forgotten
	t.Refused += r.Refused
	t.Simulated += r.Simulated
	t.Lost += r.Lost
	t.Undecided += r.Undecided
	for f, n := range r.Faults {
		t.Faults[f] += n
	}
	for i := range r.History {
		if r.History[i].Outcome == history.Unknown {
			t.Unknown++
		}
	}
	if v == nil {
		return
	}
	t.Violations++
	if t.Violations == 1 || seed < t.First {
		t.First, t.Why = seed, v.Why
	}
}

// FaultCounts says how often each kind of fault happened.
func (t *Total) FaultCounts() map[string]int { return seeded.FaultCounts[Fault](t.Faults[:]) }
