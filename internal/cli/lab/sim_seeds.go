package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

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

// drawSeeds returns the function that draws a seed's configuration, without the rule that the flags switch off.
func drawSeeds[R ~uint32 | ~uint64, C any](f *simFlags, rules []string, draw func(seed uint64, without R) C) (func(seed uint64) C, error) {
	without, err := seeded.ParseRule[R](rules, f.without)
	if err = errors.Join(err, f.seedOnly()); err != nil {
		return nil, cli.UsageError(err)
	}
	return func(seed uint64) C { return draw(seed, without) }, nil
}

// seedSim is a simulation whose seed determines all but the rule that is switched off. T is the total of its runs.
type seedSim[T any] struct {
	name   string
	trace  func(seed uint64) (lines []string, broken string)
	many   func(report func(*T)) *T
	tally  func(*T) (t *seeded.Tally, ops int)
	result func(t *T, took time.Duration) seedResult
}

// seedResult is what a simulation prints.
type seedResult interface {
	common() *SimResult
	print(io.Writer) error
}

func (r *SimResult) common() *SimResult { return r }

// run runs the seeds that the flags name, or shows the trace of the first.
func (s *seedSim[T]) run(out, progress io.Writer, flags *simFlags) error {
	if flags.trace {
		lines, broken := s.trace(flags.first)
		return showTrace(out, flags.first, lines, broken)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(SimGCPercent))
	began := time.Now()
	total := s.many(func(t *T) {
		tally, ops := s.tally(t)
		fmt.Fprintf(progress, "%s of %s seeds, %s operations, %d violations\n", cli.Grouped(tally.Seeds),
			cli.Grouped(flags.seeds), cli.Grouped(uint64(ops)), tally.Violations)
	})
	r := s.result(total, time.Since(began))
	var err error
	if tally, _ := s.tally(total); tally.Violations > 0 {
		err = fmt.Errorf("%d of %d seeds show a violation, the first %d: %s", tally.Violations, tally.Seeds, tally.First,
			tally.Why)
		lines, _ := s.trace(tally.First)
		var kept error
		r.common().Counterexample, kept = keepTrace(flags, s.name, tally.First, lines)
		err = errors.Join(err, kept)
	}
	if flags.json {
		return errors.Join(err, cli.PrintJSON(out, r))
	}
	return errors.Join(err, r.print(out))
}

// newSeedResult returns what the flags and a tally say of a simulation.
func newSeedResult(flags *simFlags, protocol, plane string, t *seeded.Tally, took time.Duration) SimResult {
	r := SimResult{
		Protocol: protocol, Plane: plane, Seeds: t.Seeds, FirstSeed: flags.first, Violations: t.Violations, Violation: t.Why,
		Without: flags.without, Seconds: took.Seconds(),
	}
	if t.Violations > 0 {
		r.SeedOfFirst = &t.First
	}
	return r
}

// printSeedFaults prints the number of faults of each kind, and where the counterexample is.
func printSeedFaults[F fmt.Stringer](table io.Writer, all iter.Seq[F], r *SimResult) {
	for f := range all {
		fmt.Fprintf(table, "%v\t%s\n", f, cli.Grouped(uint64(r.Faults[f.String()])))
	}
	if r.Counterexample != nil {
		fmt.Fprintf(table, "\ncounterexample\t%s\n", *r.Counterexample)
	}
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
