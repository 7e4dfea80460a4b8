package lab

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/verify/keyspacesim"
	"github.com/netcraq/netcraq/internal/verify/seeded"
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

// runKeyspaceSim simulates the decisions of a keyspace on disks.
func runKeyspaceSim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := drawSeeds(flags, core.RuleNames(), func(seed uint64, without core.Rule) keyspacesim.Config {
		c := keyspacesim.Draw(seed)
		c.Without = without
		return c
	})
	if err != nil {
		return err
	}
	s := seedSim[keyspacesim.Total]{
		name: "keyspace",
		trace: func(seed uint64) ([]string, string) {
			r := keyspacesim.Trace(draw(seed))
			return r.Trace, r.Broken
		},
		many: func(report func(*keyspacesim.Total)) *keyspacesim.Total {
			return keyspacesim.Many(ctx, keyspacesim.Options{
				First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw, Report: report,
			})
		},
		tally:  func(t *keyspacesim.Total) (*seeded.Tally, int) { return &t.Tally, t.Ops },
		result: func(t *keyspacesim.Total, took time.Duration) seedResult { return newKeyspaceSimResult(flags, t, took) },
	}
	return s.run(out, progress, flags)
}

func newKeyspaceSimResult(flags *simFlags, t *keyspacesim.Total, took time.Duration) *keyspaceSimResult {
	r := &keyspaceSimResult{
		SimResult: newSeedResult(flags, "keyspace", "model", &t.Tally, took),
		Reads:     t.Reads, Writes: t.Writes, Recoveries: t.Recoveries, Eras: t.Eras, Losses: t.Losses, Kinds: t.Kinds,
	}
	r.Ops, r.UnknownOutcomes, r.Reconfigurations = t.Ops, t.Unknown, t.Eras
	r.Steps, r.SimulatedSeconds, r.Faults = t.Steps, t.Simulated.Seconds(), t.FaultCounts()
	return r
}

func (r *keyspaceSimResult) print(out io.Writer) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "seeds\treads\tacknowledged writes\teras\tsteps\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n\n", cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Reads)),
		cli.Grouped(uint64(r.Writes)), cli.Grouped(uint64(r.Eras)), cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	printSeedFaults(table, keyspacesim.AllFaults(), &r.SimResult)
	return table.Flush()
}
