package lab

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/membersim"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// memberSimResult is the output of `netcraq sim --member --json`.
type memberSimResult struct {
	SimResult
	Fast  int            `json:"fast_reads"`
	Slow  map[string]int `json:"slow_reads"` // by reason
	Views int            `json:"views"`
	Kinds map[string]int `json:"kinds"` // seeds by kind of violation
}

// runMemberSim simulates etcd members that read through the chain.
func runMemberSim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := drawSeeds(flags, core.RuleNames(), func(seed uint64, without core.Rule) membersim.Config {
		c := membersim.Draw(seed)
		c.Without = without
		return c
	})
	if err != nil {
		return err
	}
	s := seedSim[membersim.Total]{
		name: "member",
		trace: func(seed uint64) ([]string, string) {
			r := membersim.Trace(draw(seed))
			return r.Trace, r.Broken
		},
		many: func(report func(*membersim.Total)) *membersim.Total {
			return membersim.Many(ctx, membersim.Options{
				First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw, Report: report,
			})
		},
		tally:  func(t *membersim.Total) (*seeded.Tally, int) { return &t.Tally, t.Ops },
		result: func(t *membersim.Total, took time.Duration) seedResult { return newMemberSimResult(flags, t, took) },
	}
	return s.run(out, progress, flags)
}

func newMemberSimResult(flags *simFlags, t *membersim.Total, took time.Duration) *memberSimResult {
	r := &memberSimResult{
		SimResult: newSeedResult(flags, "member", "chain", &t.Tally, took),
		Fast:      t.Fast, Slow: make(map[string]int), Views: t.Views, Kinds: t.Kinds,
	}
	r.Ops, r.UnknownOutcomes, r.Reconfigurations = t.Ops, t.Unknown, t.Reconfigurations
	r.Steps, r.SimulatedSeconds, r.Faults = t.Steps, t.Simulated.Seconds(), t.FaultCounts()
	for why, n := range t.Slow {
		r.Slow[core.Reason(why).String()] = n
	}
	return r
}

func (r *memberSimResult) print(out io.Writer) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "seeds\toperations\tfast reads\tviews\tsteps\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n\n", cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Ops)),
		cli.Grouped(uint64(r.Fast)), cli.Grouped(uint64(r.Views)), cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	printSeedFaults(table, membersim.AllFaults(), &r.SimResult)
	return table.Flush()
}
