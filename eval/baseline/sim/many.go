package sim

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Options say which runs are made.
type Options struct {
	Protocol     Protocol
	First, Seeds uint64
	Jobs         int          // at a time
	Report       func(*Total) // called now and then, by one goroutine at a time; nil: never
}

// Total is the result of runs with many seeds.
type Total struct {
	Protocol   Protocol
	Seeds      uint64
	Ops        int
	Unknown    int // operations that were not answered
	Undecided  int // histories that took too long to check
	Steps      int
	Simulated  time.Duration
	Faults     map[FaultKind]int
	Violations int               // seeds with one
	First      uint64            // the lowest of them
	Why        string            // of that seed
	Kinds      map[Kind][]uint64 // seeds that show a kind, ascending
	Ours       map[uint64]string // violations of this project's protocol in the same runs, by seed: expected to be empty
}

// reportEvery is how often progress is reported.
const reportEvery = 2 * time.Second

// Many runs seeds that follow each other, of a protocol and of this project's, until all are done or
// ctx ends.
func (r *Runner) Many(ctx context.Context, o Options) (*Total, error) {
	var (
		total = Total{
			Protocol: o.Protocol,
			Faults:   make(map[FaultKind]int),
			Kinds:    make(map[Kind][]uint64),
			Ours:     make(map[uint64]string),
		}
		mu    sync.Mutex
		group sync.WaitGroup
		fails error
		next  uint64
		told  = time.Now()
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == o.Seeds || ctx.Err() != nil || fails != nil {
			return 0, false
		}
		next++
		return o.First + next - 1, true
	}
	for range max(1, o.Jobs) {
		group.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				one, err := r.both(Draw(o.Protocol, seed))
				mu.Lock()
				if err != nil {
					fails = err
				} else {
					total.add(seed, one)
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
	for _, seeds := range total.Kinds {
		slices.Sort(seeds)
	}
	return &total, fails
}

// pair is a run of a protocol with its verdict, and the verdict on this project's protocol in the
// same run.
type pair struct {
	result  *Result
	verdict *Verdict
	ours    *Violation
}

func (r *Runner) both(c Config) (p pair, err error) {
	if p.result, p.verdict, err = r.judged(c); err != nil || c.Protocol == Ours {
		return p, err
	}
	p.ours, err = r.ours(c)
	return p, err
}

func (t *Total) add(seed uint64, p pair) {
	t.Seeds++
	t.Ops += len(p.result.Records)
	t.Steps += p.result.Steps
	t.Simulated += p.result.Simulated
	t.Undecided += p.verdict.Undecided
	for _, f := range p.result.Faults {
		t.Faults[f.Kind]++
	}
	for _, r := range p.result.Records {
		if !r.Known {
			t.Unknown++
		}
	}
	if p.ours != nil {
		t.Ours[seed] = p.ours.Why
	}
	if len(p.verdict.Violations) == 0 {
		return
	}
	t.Violations++
	if t.Violations == 1 || seed < t.First {
		t.First, t.Why = seed, p.verdict.Violations[0].Why
	}
	for _, v := range p.verdict.Violations {
		t.Kinds[v.Kind] = append(t.Kinds[v.Kind], seed)
	}
}

// candidates is how many seeds of a kind are made short, to show the shortest.
const candidates = 6

// Counterexamples makes one for each kind that was found: the shortest of the first few seeds. One
// seed alone gives its own.
func (r *Runner) Counterexamples(ctx context.Context, t *Total) ([]*Counterexample, error) {
	var list []*Counterexample
	for _, kind := range Kinds() {
		var best *Counterexample
		for _, seed := range t.Kinds[kind][:min(candidates, len(t.Kinds[kind]))] {
			if err := ctx.Err(); err != nil {
				return list, err
			}
			e, err := r.Counterexample(Draw(t.Protocol, seed), kind)
			if err != nil {
				return list, err
			}
			if best == nil || len(e.Trace) < len(best.Trace) {
				best = e
			}
		}
		if best != nil {
			list = append(list, best)
		}
	}
	return list, nil
}
