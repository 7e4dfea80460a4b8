package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
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

// seedOnly checks the flags of a simulation whose seed determines all else.
func (f *simFlags) seedOnly() error {
	switch {
	case f.gateway && f.member || f.gateway && f.keyspace || f.member && f.keyspace:
		return errors.New("choose one of --gateway, --member and --keyspace")
	case f.seeds < 1 || f.jobs < 1:
		return errors.New("numbers of seeds and jobs are positive")
	case f.plane != "chain" || f.quiet != "" || f.ops != 0 || f.clients != 0 || f.keys != 0 || f.shards != 0:
		return errors.New("--plane, --quiet, --ops, --clients, --keys and --shards are not for --gateway, --member and " +
			"--keyspace: the seed determines all else")
	}
	return nil
}

// drawGateway returns the function that draws a seed's configuration within the flags.
func (f *simFlags) drawGateway() (func(seed uint64) gatewaysim.Config, error) {
	without, err := core.ParseRule(f.without)
	if err = errors.Join(err, f.seedOnly()); err != nil {
		return nil, err
	}
	return func(seed uint64) gatewaysim.Config {
		c := gatewaysim.Draw(seed)
		c.Without = without
		return c
	}, nil
}

// runGatewaySim simulates gateways with etcd and the cached objects of the chain.
func runGatewaySim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := flags.drawGateway()
	if err != nil {
		return cli.UsageError(err)
	}
	if flags.trace {
		r := gatewaysim.Trace(draw(flags.first))
		return showTrace(out, flags.first, r.Trace, r.Broken)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(SimGCPercent))
	began := time.Now()
	total := gatewaysim.Many(ctx, gatewaysim.Options{
		First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw,
		Report: func(t *gatewaysim.Total) {
			fmt.Fprintf(progress, "%s of %s seeds, %s operations, %d violations\n", cli.Grouped(t.Seeds),
				cli.Grouped(flags.seeds),
				cli.Grouped(uint64(t.Ops)), t.Violations)
		},
	})
	r := newGatewaySimResult(flags, total, time.Since(began))
	if total.Violations > 0 {
		err = fmt.Errorf("%d of %d seeds show a violation, the first %d: %s", total.Violations, total.Seeds,
			total.First, total.Why)
		var kept error
		r.Counterexample, kept = keepTrace(flags, "gateway", total.First, gatewaysim.Trace(draw(total.First)).Trace)
		err = errors.Join(err, kept)
	}
	if flags.json {
		return errors.Join(err, cli.PrintJSON(out, r))
	}
	return errors.Join(err, printGatewaySim(out, r))
}

func newGatewaySimResult(flags *simFlags, t *gatewaysim.Total, took time.Duration) *gatewaySimResult {
	r := &gatewaySimResult{
		SimResult: SimResult{
			Protocol: "gateway", Plane: "model", Seeds: t.Seeds, FirstSeed: flags.first, Ops: t.Ops,
			Reconfigurations: t.Reconfigurations,
			Violations:       t.Violations, Violation: t.Why, Without: flags.without, UnknownOutcomes: t.Unknown, Steps: t.Steps,
			SimulatedSeconds: t.Simulated.Seconds(), Seconds: took.Seconds(), Faults: t.FaultCounts(),
		},
		Hits: t.Hits, Events: t.Delivered, Placed: t.Placed, Restores: t.Restored, Kinds: t.Kinds,
	}
	if t.Violations > 0 {
		r.SeedOfFirst = &t.First
	}
	return r
}

func printGatewaySim(out io.Writer, r *gatewaySimResult) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "seeds\toperations\thits\twatch events\tkeys placed\tsteps\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n\n", cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Ops)),
		cli.Grouped(uint64(r.Hits)),
		cli.Grouped(uint64(r.Events)), cli.Grouped(uint64(r.Placed)), cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	for f := range gatewaysim.AllFaults() {
		fmt.Fprintf(table, "%v\t%s\n", f, cli.Grouped(uint64(r.Faults[f.String()])))
	}
	if r.Counterexample != nil {
		fmt.Fprintf(table, "\ncounterexample\t%s\n", *r.Counterexample)
	}
	return table.Flush()
}

// keepTrace writes the end of a failing run to a file.
func keepTrace(flags *simFlags, what string, seed uint64, trace []string) (*string, error) {
	var text bytes.Buffer
	if err := seeded.WriteTrace(&text, trace, keptLines); err != nil {
		return nil, err
	}
	file := filepath.Join(flags.examples, fmt.Sprintf("%s-seed-%d.txt", what, seed))
	if err := WriteExample(file, text.Bytes()); err != nil {
		return nil, err
	}
	return &file, nil
}

// keptLines is the number of trace lines kept.
const keptLines = 400

// showTrace prints the end of a run, and returns an error if it shows a violation.
func showTrace(out io.Writer, seed uint64, trace []string, broken string) error {
	if err := seeded.WriteTrace(out, trace, keptLines); err != nil {
		return err
	}
	if broken != "" {
		return fmt.Errorf("seed %d shows a violation: %s", seed, broken)
	}
	return nil
}
