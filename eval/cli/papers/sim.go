package papers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	baseline "github.com/netcraq/netcraq/eval/baseline/sim"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/lab"
)

// papersResult is the output of `netcraq sim --protocol ... --json` for a protocol of the papers.
type papersResult struct {
	lab.SimResult
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

type simFlags struct {
	seeds, first uint64
	protocol     string
	examples     string // directory for counterexamples
	jobs         int
	trace, json  bool
}

func newSimCommand() *cobra.Command {
	var flags simFlags
	c := &cobra.Command{
		Use:   "sim",
		Short: "Simulate the papers' protocols with faults, deterministically from seeds",
		Long: `One chain of the papers' protocol netchain, netchain-32 (SEQ of 32 bits) or netcraq-published runs on a network that
loses, duplicates and delays messages, and this project's protocol in the same runs. For each kind of violation a short
counterexample is shown and written to a file with its seed. The same seed always gives the same run.

'netcraq sim' without --protocol simulates clusters of this project's protocol.`,
		Example: `  netcraq sim --protocol netchain --seeds 100
  netcraq sim --protocol netcraq-published --first-seed 3 --seeds 1 --trace`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runSim(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &flags)
		},
	}
	f := c.Flags()
	f.Uint64Var(&flags.seeds, "seeds", 100, "number of seeds to run")
	f.Uint64Var(&flags.first, "first-seed", 1, "first seed")
	f.StringVar(&flags.protocol, "protocol", string(baseline.NetChain),
		"the simulated protocol: netchain, netchain-32 or netcraq-published")
	f.StringVar(&flags.examples, "counterexamples", "out/sim", "directory for counterexamples")
	f.IntVar(&flags.jobs, "jobs", runtime.GOMAXPROCS(0), "number of runs in parallel")
	f.BoolVar(&flags.trace, "trace", false, "show the last steps of the first seed, whether it fails or not")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

// runSim simulates a protocol of the papers, and this project's protocol in the same runs.
func runSim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	protocol, err := baseline.ParseProtocol(flags.protocol)
	if err == nil && (flags.seeds < 1 || flags.jobs < 1) {
		err = errors.New("numbers of seeds and jobs are positive")
	}
	if err != nil {
		return cli.UsageError(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(lab.SimGCPercent))
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
		SimResult: lab.SimResult{
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
		if err := lab.WriteExample(file, []byte(e.String())); err != nil {
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
	if err := baseline.WriteTrace(out, result.Trace[max(0, len(result.Trace)-lab.SimTraceLines):]); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s shows no violation with seed %d\n", t.Protocol, seed)
	return err
}
