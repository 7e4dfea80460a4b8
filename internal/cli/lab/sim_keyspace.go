package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/verify/keyspacesim"
)

// keyspaceSimResult is the output of `netcraq sim --keyspace --json`.
type keyspaceSimResult struct {
	SimResult
	Reads      int            `json:"reads"`
	Writes     int            `json:"acknowledged_writes"`
	Recoveries int            `json:"recoveries"` // that began
	Eras       int            `json:"eras"`       // that became active
	Losses     int            `json:"shards_lost"`
	Kinds      map[string]int `json:"kinds"` // seeds by kind of violation
}

// drawKeyspace returns the function that draws a seed's configuration within the flags.
func (f *simFlags) drawKeyspace() (func(seed uint64) keyspacesim.Config, error) {
	without, err := core.ParseRule(f.without)
	if err = errors.Join(err, f.seedOnly()); err != nil {
		return nil, err
	}
	return func(seed uint64) keyspacesim.Config {
		c := keyspacesim.Draw(seed)
		c.Without = without
		return c
	}, nil
}

// runKeyspaceSim simulates the decisions of a keyspace on disks.
func runKeyspaceSim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := flags.drawKeyspace()
	if err != nil {
		return cli.UsageError(err)
	}
	if flags.trace {
		r := keyspacesim.Trace(draw(flags.first))
		return showTrace(out, flags.first, r.Trace, r.Broken)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(SimGCPercent))
	began := time.Now()
	total := keyspacesim.Many(ctx, keyspacesim.Options{
		First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw,
		Report: func(t *keyspacesim.Total) {
			fmt.Fprintf(progress, "%s of %s seeds, %s operations, %d violations\n", cli.Grouped(t.Seeds),
				cli.Grouped(flags.seeds), cli.Grouped(uint64(t.Ops)), t.Violations)
		},
	})
	r := newKeyspaceSimResult(flags, total, time.Since(began))
	if total.Violations > 0 {
		err = fmt.Errorf("%d of %d seeds show a violation, the first %d: %s", total.Violations, total.Seeds, total.First,
			total.Why)
		var kept error
		r.Counterexample, kept = keepTrace(flags, "keyspace", total.First, keyspacesim.Trace(draw(total.First)).Trace)
		err = errors.Join(err, kept)
	}
	if flags.json {
		return errors.Join(err, cli.PrintJSON(out, r))
	}
	return errors.Join(err, printKeyspaceSim(out, r))
}

func newKeyspaceSimResult(flags *simFlags, t *keyspacesim.Total, took time.Duration) *keyspaceSimResult {
	r := &keyspaceSimResult{
		SimResult: SimResult{
			Protocol: "keyspace", Plane: "model", Seeds: t.Seeds, FirstSeed: flags.first, Ops: t.Ops,
			Reconfigurations: t.Eras, Violations: t.Violations, Violation: t.Why, Without: flags.without,
			UnknownOutcomes: t.Unknown, Steps: t.Steps, SimulatedSeconds: t.Simulated.Seconds(), Seconds: took.Seconds(),
			Faults: t.FaultCounts(),
		},
		Reads: t.Reads, Writes: t.Writes, Recoveries: t.Recoveries, Eras: t.Eras, Losses: t.Losses, Kinds: t.Kinds,
	}
	if t.Violations > 0 {
		r.SeedOfFirst = &t.First
	}
	return r
}

func printKeyspaceSim(out io.Writer, r *keyspaceSimResult) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "seeds\treads\tacknowledged writes\teras\tsteps\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n\n", cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Reads)),
		cli.Grouped(uint64(r.Writes)), cli.Grouped(uint64(r.Eras)), cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	for f := range keyspacesim.AllFaults() {
		fmt.Fprintf(table, "%v\t%s\n", f, cli.Grouped(uint64(r.Faults[f.String()])))
	}
	if r.Counterexample != nil {
		fmt.Fprintf(table, "\ncounterexample\t%s\n", *r.Counterexample)
	}
	return table.Flush()
}
