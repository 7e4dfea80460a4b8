package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/membersim"
)

// memberSimResult is the output of `netcraq sim --member --json`.
type memberSimResult struct {
	SimResult
	Fast        int            `json:"fast_reads"`
	Slow        map[string]int `json:"slow_reads"` // by reason
	Generations int            `json:"generations"`
	Kinds       map[string]int `json:"kinds"` // seeds by kind of violation
}

// drawMember returns the function that draws a seed's configuration within the flags.
func (f *simFlags) drawMember() (func(seed uint64) membersim.Config, error) {
	without, err := core.ParseRule(f.without)
	if err = errors.Join(err, f.seedOnly()); err != nil {
		return nil, err
	}
	return func(seed uint64) membersim.Config {
		c := membersim.Draw(seed)
		c.Without = without
		return c
	}, nil
}

// runMemberSim simulates etcd members that read through the chain.
func runMemberSim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := flags.drawMember()
	if err != nil {
		return cli.UsageError(err)
	}
	if flags.trace {
		r := membersim.Trace(draw(flags.first))
		return showTrace(out, flags.first, r.Trace, r.Broken)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(SimGCPercent))
	began := time.Now()
	total := membersim.Many(ctx, membersim.Options{
		First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw,
		Report: func(t *membersim.Total) {
			fmt.Fprintf(progress, "%s of %s seeds, %s operations, %d violations\n", cli.Grouped(t.Seeds), cli.Grouped(flags.seeds),
				cli.Grouped(uint64(t.Ops)), t.Violations)
		},
	})
	r := newMemberSimResult(flags, total, time.Since(began))
	if total.Violations > 0 {
		err = fmt.Errorf("%d of %d seeds show a violation, the first %d: %s", total.Violations, total.Seeds, total.First, total.Why)
		var kept error
		r.Counterexample, kept = keepTrace(flags, "member", total.First, membersim.Trace(draw(total.First)).Trace)
		err = errors.Join(err, kept)
	}
	if flags.json {
		return errors.Join(err, cli.PrintJSON(out, r))
	}
	return errors.Join(err, printMemberSim(out, r))
}

func newMemberSimResult(flags *simFlags, t *membersim.Total, took time.Duration) *memberSimResult {
	r := &memberSimResult{
		SimResult: SimResult{
			Protocol: "member", Plane: "chain", Seeds: t.Seeds, FirstSeed: flags.first, Ops: t.Ops,
			Reconfigurations: t.Reconfigurations, Violations: t.Violations, Violation: t.Why, Without: flags.without,
			UnknownOutcomes: t.Unknown, Steps: t.Steps, SimulatedSeconds: t.Simulated.Seconds(), Seconds: took.Seconds(),
			Faults: t.FaultCounts(),
		},
		Fast: t.Fast, Slow: make(map[string]int), Generations: t.Generations, Kinds: t.Kinds,
	}
	for why, n := range t.Slow {
		r.Slow[core.Reason(why).String()] = n
	}
	if t.Violations > 0 {
		r.SeedOfFirst = &t.First
	}
	return r
}

func printMemberSim(out io.Writer, r *memberSimResult) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "seeds\toperations\tfast reads\tgenerations\tsteps\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n\n", cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Ops)),
		cli.Grouped(uint64(r.Fast)), cli.Grouped(uint64(r.Generations)), cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	for f := range membersim.AllFaults() {
		fmt.Fprintf(table, "%v\t%s\n", f, cli.Grouped(uint64(r.Faults[f.String()])))
	}
	if r.Counterexample != nil {
		fmt.Fprintf(table, "\ncounterexample\t%s\n", *r.Counterexample)
	}
	return table.Flush()
}
