package lab

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/verify/gatewaysim"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

// gatewaySimResult is the output of `netcraq sim --gateway --json`.
type gatewaySimResult struct {
	SimResult
	Hits     int            `json:"hits"`
	Events   int            `json:"watch_events"`
	Placed   int            `json:"placed"`
	Restores int            `json:"restores"` // of etcd from backups
	Kinds    map[string]int `json:"kinds"`    // seeds by kind of violation
}

// runGatewaySim simulates gateways with etcd and the cached objects of the chain.
func runGatewaySim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := drawSeeds(flags, core.RuleNames(), func(seed uint64, without core.Rule) gatewaysim.Config {
		c := gatewaysim.Draw(seed)
		c.Without = without
		return c
	})
	if err != nil {
		return err
	}
	s := seedSim[gatewaysim.Total]{
		name: "gateway",
		trace: func(seed uint64) ([]string, string) {
			r := gatewaysim.Trace(draw(seed))
			return r.Trace, r.Broken
		},
		many: func(report func(*gatewaysim.Total)) *gatewaysim.Total {
			return gatewaysim.Many(ctx, gatewaysim.Options{
				First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw, Report: report,
			})
		},
		tally:  func(t *gatewaysim.Total) (*seeded.Tally, int) { return &t.Tally, t.Ops },
		result: func(t *gatewaysim.Total, took time.Duration) seedResult { return newGatewaySimResult(flags, t, took) },
	}
	return s.run(out, progress, flags)
}

func newGatewaySimResult(flags *simFlags, t *gatewaysim.Total, took time.Duration) *gatewaySimResult {
	r := &gatewaySimResult{
		SimResult: newSeedResult(flags, "gateway", "model", &t.Tally, took),
		Hits:      t.Hits, Events: t.Delivered, Placed: t.Placed, Restores: t.Restored, Kinds: t.Kinds,
	}
	r.Ops, r.UnknownOutcomes, r.Reconfigurations = t.Ops, t.Unknown, t.Reconfigurations
	r.Steps, r.SimulatedSeconds, r.Faults = t.Steps, t.Simulated.Seconds(), t.FaultCounts()
	return r
}

func (r *gatewaySimResult) print(out io.Writer) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "seeds\toperations\thits\twatch events\tkeys placed\tsteps\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n\n", cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Ops)),
		cli.Grouped(uint64(r.Hits)),
		cli.Grouped(uint64(r.Events)), cli.Grouped(uint64(r.Placed)), cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	printSeedFaults(table, gatewaysim.AllFaults(), &r.SimResult)
	return table.Flush()
}
