package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	baseline "github.com/netcraq/netcraq/internal/eval/baseline/sim"
)

// papersResult is the output of `netcraq sim --protocol ... --json` for a protocol of the papers.
type papersResult struct {
	simResult
	Kinds           map[baseline.Kind]kindResult `json:"kinds"` // violations found
	Counterexamples []exampleResult              `json:"counterexamples"`
	Ours            oursResult                   `json:"ours"`
}

type kindResult struct {
	Seeds     int    `json:"seeds"`
	FirstSeed uint64 `json:"first_seed"`
}

type exampleResult struct {
	Kind       baseline.Kind `json:"kind"`
	Seed       uint64        `json:"seed"`
	File       string        `json:"file"`
	Why        string        `json:"why"`
	Operations int           `json:"operations"`
	Faults     int           `json:"faults"`
	Before     int           `json:"writes_before"`
	Lines      int           `json:"lines"`
	Ours       string        `json:"ours"`
}

// oursResult is the result of this project's protocol in the same runs.
type oursResult struct {
	Violations  int     `json:"violations"`
	SeedOfFirst *uint64 `json:"seed_of_first"`
	Violation   string  `json:"violation,omitempty"`
}

// checkPapers rejects flags that do not apply to the papers' protocols.
func (f *simFlags) checkPapers() error {
	switch {
	case f.seeds < 1 || f.jobs < 1:
		return errors.New("numbers of seeds and jobs are positive")
	case f.plane != "chain" || f.without != "" || f.quiet != "" || f.ops != 0 || f.clients != 0 ||
		f.keys != 0 || f.shards != 0:
		return errors.New("--plane, --without, --quiet, --ops, --clients, --keys and --shards are for --protocol netcraq: " +
			"the seed determines all else")
	}
	return nil
}

// runPapers simulates a protocol of the papers, and this project's protocol in the same runs.
func runPapers(ctx context.Context, out, progress io.Writer, flags *simFlags, protocol baseline.Protocol) error {
	if err := flags.checkPapers(); err != nil {
		return cli.UsageError(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(simGCPercent))
	if flags.trace {
		flags.seeds = 1
	}
	began := time.Now()
	runner := baseline.NewRunner()
	total, err := runner.Many(ctx, baseline.Options{
		Protocol: protocol, First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs,
		Report: func(t *baseline.Total) {
			fmt.Fprintf(progress, "%s of %s seeds, %s operations, violations in %d seeds, with this project's protocol in %d\n",
				cli.Grouped(t.Seeds),
				cli.Grouped(flags.seeds), cli.Grouped(uint64(t.Ops)), t.Violations, len(t.Ours))
		},
	})
	if err != nil {
		return err
	}
	// quick, so that an interrupted run keeps its results
	examples, err := runner.Counterexamples(context.WithoutCancel(ctx), total)
	if err != nil {
		return err
	}
	if flags.trace {
		return tracePapers(out, runner, flags.first, total, examples)
	}
	if !flags.json {
		if err := writeExamples(out, examples); err != nil {
			return err
		}
	}
	result, err := newPapersResult(flags, total, examples)
	if err != nil {
		return err
	}
	result.Seconds = time.Since(began).Seconds()
	if flags.json {
		err = cli.PrintJSON(out, result)
	} else {
		err = printPapers(out, result)
	}
	if err != nil || total.Violations == 0 {
		return err
	}
	return fmt.Errorf("%d of %d seeds show a violation", total.Violations, total.Seeds)
}

// newPapersResult writes the counterexamples to files and summarises the run.
func newPapersResult(flags *simFlags, t *baseline.Total, examples []*baseline.Counterexample) (*papersResult, error) {
	r := &papersResult{
		simResult: simResult{
			Protocol: string(t.Protocol), Plane: "machine", Seeds: t.Seeds, FirstSeed: flags.first, Ops: t.Ops,
			Violations: t.Violations,
			Violation:  t.Why, UnknownOutcomes: t.Unknown, Undecided: t.Undecided, Steps: t.Steps,
			SimulatedSeconds: t.Simulated.Seconds(),
			Faults:           make(map[string]int),
		},
		Kinds: make(map[baseline.Kind]kindResult), Counterexamples: []exampleResult{},
		Ours: oursResult{Violations: len(t.Ours)},
	}
	if t.Violations > 0 {
		r.SeedOfFirst = &t.First
	}
	for kind, n := range t.Faults {
		r.Faults[string(kind)] = n
	}
	for kind, seeds := range t.Kinds {
		r.Kinds[kind] = kindResult{len(seeds), seeds[0]}
	}
	for seed, why := range t.Ours {
		if r.Ours.SeedOfFirst == nil || seed < *r.Ours.SeedOfFirst {
			r.Ours.SeedOfFirst, r.Ours.Violation = &seed, why
		}
	}
	for _, e := range examples {
		file := filepath.Join(flags.examples, e.Name())
		if err := writeExample(file, []byte(e.String())); err != nil {
			return nil, err
		}
		r.Counterexamples = append(r.Counterexamples, exampleResult{
			e.Kind, e.Seed, file, e.Violation.Why, len(e.Config.Ops), len(e.Config.Faults), e.Config.Before,
			len(e.Trace), e.Ours(),
		})
	}
	if len(r.Counterexamples) > 0 {
		r.Counterexample = &r.Counterexamples[0].File
	}
	return r, nil
}

// writeExample writes a counterexample to a file.
func writeExample(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("counterexamples cannot be kept: %w; name another directory with --counterexamples", err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("counterexamples cannot be kept: %w; name another directory with --counterexamples", err)
	}
	return nil
}

func printPapers(out io.Writer, r *papersResult) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "protocol\tseeds\toperations\tlost\trepeated\tlate\tsteps\tseconds\tseeds with a violation\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%d\n", r.Protocol, cli.Grouped(r.Seeds),
		cli.Grouped(uint64(r.Ops)),
		cli.Grouped(uint64(r.Faults[string(baseline.Lose)])), cli.Grouped(uint64(r.Faults[string(baseline.Repeat)])),
		cli.Grouped(uint64(r.Faults[string(baseline.Delay)])),
		cli.Grouped(uint64(r.Steps)), r.Seconds, r.Violations)
	fmt.Fprintf(table, "%s\tthe same\tthe same\t\t\t\t\t\t%d\n", baseline.Ours, r.Ours.Violations)
	if len(r.Counterexamples) > 0 {
		fmt.Fprintf(table, "\nviolation\tseeds\tshortest\toperations\tfaults\t%s in that run\tcounterexample\n",
			baseline.Ours)
	}
	for _, e := range r.Counterexamples {
		fmt.Fprintf(table, "%s\t%d\tseed %d\t%d\t%d\t%s\t%s\n",
			e.Kind.Title(), r.Kinds[e.Kind].Seeds, e.Seed, e.Operations, e.Faults, e.Ours, e.File)
	}
	return table.Flush()
}

// writeExamples prints counterexamples, each followed by an empty line.
func writeExamples(out io.Writer, examples []*baseline.Counterexample) error {
	for _, e := range examples {
		if err := e.Write(out); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return nil
}

// tracePapers shows the counterexamples of one seed, or the end of its run.
func tracePapers(out io.Writer, runner *baseline.Runner, seed uint64, t *baseline.Total,
	examples []*baseline.Counterexample) error {
	if err := writeExamples(out, examples); err != nil {
		return err
	}
	if t.Violations > 0 {
		return fmt.Errorf("seed %d shows a violation", t.First)
	}
	result, err := runner.Trace(baseline.Draw(t.Protocol, seed))
	if err != nil {
		return err
	}
	if err := baseline.WriteTrace(out, result.Trace[max(0, len(result.Trace)-simTraceLines):]); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s shows no violation with seed %d\n", t.Protocol, seed)
	return err
}
