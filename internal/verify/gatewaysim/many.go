package gatewaysim

import (
	"context"

	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// Options say which runs are made.
type Options struct {
	First, Seeds uint64
	Jobs         int
	Draw         func(seed uint64) Config
	Report       func(*Total) // called now and then; nil: never
}

// Total is the result of runs with many seeds.
type Total struct {
	Result
	seeded.Tally
}

// Many runs seeds that follow each other, until all are done or ctx ends.
func Many(ctx context.Context, o Options) *Total {
	total := Total{Tally: seeded.Tally{Kinds: make(map[string]int)}}
	report := func() {
		if o.Report != nil {
			o.Report(&total)
		}
	}
	seeded.Many(ctx, o.First, o.Seeds, o.Jobs, func(seed uint64) *Result { return Run(o.Draw(seed)) }, total.add, report)
	return &total
}

func (t *Total) add(seed uint64, r *Result) {
	t.Count(seed, r.Broken)
	t.Ops += r.Ops
	t.Hits += r.Hits
	t.Unknown += r.Unknown
	t.Steps += r.Steps
	t.Delivered += r.Delivered
	t.Placed += r.Placed
	t.Expired += r.Expired
	t.Unguarded += r.Unguarded
	t.Noticed += r.Noticed
	t.Allowed += r.Allowed
	t.Cleaned += r.Cleaned
	t.Deleted += r.Deleted
	t.Vanished += r.Vanished
	t.Restored += r.Restored
	t.Timelines += r.Timelines
	t.Met += r.Met
	t.Unplaced += r.Unplaced
	t.Reconfigurations += r.Reconfigurations
	t.Simulated += r.Simulated
	for f, n := range r.Faults {
		t.Faults[f] += n
	}
}

// FaultCounts says how often each kind of fault happened.
func (t *Total) FaultCounts() map[string]int { return seeded.FaultCounts[Fault](t.Faults[:]) }
