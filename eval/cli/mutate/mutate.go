// Package mutate implements the command that measures whether tests notice wrong decisions.
package mutate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/mutate"
	"github.com/netcraq/netcraq/internal/cli"
)

// Commands returns the commands of this group.
func Commands() []*cobra.Command { return []*cobra.Command{newCommand()} }

const planes = "xdp, p4, chain, reconfig or core"

type options struct {
	plane, source   string
	sample, packets int
	skip            int
	time            time.Duration
	at              string
	seed            uint64
	most            float64
	own             bool
	unreached, json bool
}

func newCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "mutate",
		Short: cli.ShortOf("mutate"),
		Long: `Draws mutants of a plane from a seed: its code with one condition changed. Runs the plane's tests on each until one
fails. A mutant that no test notices survives: it is equal to the code (docs/verification.md), or a test is missing.
eval/mutate/reasons.yaml says why mutants survive: those that are equal by it count apart.

xdp (as root): a conditional jump of the bytecode is always or never taken. The tests are all vectors and random packets,
without tags, with them, with a rate, with the constants of CPUs that reorder loads, and with all objects in one place of
their table; vectors in tables that have been used, and with helpers of the kernel that fail, where a node may do less than
it should and nothing else; then, with --own-tests, the plane's tests in Go. Those run whose messages go the way that the mutant closes. A
mutant that the kernel's verifier refuses counts apart, as does one that closes a way of which the verifier proves, for all
these options and those of other nodes, that it is never taken; another one is drawn. More or fewer messages of vectors
that take the slow path are noticed too. Survivors have a class: "unreached", no message of the tests goes the way that the
mutant closes; "slower", the results are the same, but the fast path leaves more random packets to the slow path;
"unnoticed", the results are the same.

p4: a conditional jump of the compiled program is always or never taken. The tests are the vectors, with and without
--relay of nodes, and random packets.

chain, reconfig, core: a condition of the pure machine in Go is always or never true, or a comparison has the other
boundary. The tests are the machine's own and a bounded simulation. They are compiled from the source in --source.`,
		Example: `  netcraq mutate --plane xdp --sample 300 --json
  netcraq mutate --plane chain --sample 100 --seed 7
  netcraq mutate --plane xdp --unreached`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.plane, "plane", cli.PlaneXDP, planes)
	f.IntVar(&o.sample, "sample", 300, "number of mutants to try")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the sample and of the random packets")
	f.IntVar(&o.packets, "packets", 10_000, "number of random packets for each mutant of --plane xdp or p4")
	f.StringVar(&o.source, "source", ".", "folder of the source of NetCRAQ, whose tests run")
	f.BoolVar(&o.own, "own-tests", true, "run the tests of --plane xdp that are written in Go on mutants that nothing else notices")
	f.IntVar(&o.skip, "skip", 0, "number of mutants of the sample to leave out, which an earlier run has drawn")
	f.StringVar(&o.at, "at", "", "FILE:LINE, as in the list of survivors: try mutants of this line only")
	f.DurationVar(&o.time, "time", 0, "draw no more mutants after this time (default: no limit)")
	f.BoolVar(&o.unreached, "unreached", false, "list all mutants of --plane xdp that no message of the tests reaches, and try none")
	f.Float64Var(&o.most, "most", 2, "largest percentage of survivors; with more, the exit status is 1")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return c
}

// subject is a subject that holds resources.
type subject interface {
	mutate.Subject
	io.Closer
}

func (o *options) subject(ctx context.Context) (subject, error) {
	switch {
	case o.sample < 1:
		return nil, cli.UsageError(fmt.Errorf("--sample %d: want 1 or more mutants", o.sample))
	case o.skip < 0:
		return nil, cli.UsageError(fmt.Errorf("--skip %d: want 0 or more mutants", o.skip))
	case o.unreached && o.plane != cli.PlaneXDP:
		return nil, cli.UsageError(fmt.Errorf("--unreached works with --plane %s only", cli.PlaneXDP))
	case o.packets < 0:
		return nil, cli.UsageError(fmt.Errorf("--packets %d: want 0 or more packets", o.packets))
	case o.plane == cli.PlaneXDP:
		root := ""
		if o.own {
			root = o.source
		}
		return mutate.NewXDP(ctx, o.packets, o.seed, root)
	case o.plane == cli.PlaneP4:
		return mutate.NewP4(o.packets, o.seed)
	case mutate.IsGo(o.plane):
		return mutate.NewGo(ctx, o.plane, o.source)
	}
	return nil, cli.UsageError(fmt.Errorf("--plane %s: want %s", o.plane, planes))
}

func (o *options) run(ctx context.Context, out, progress io.Writer) (err error) {
	s, err := o.subject(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	t := &teller{out: progress, begun: time.Now()}
	fmt.Fprintf(progress, "%s mutants, seed %d\n", cli.Grouped(uint64(len(s.Mutants()))), o.seed)
	if x, ok := s.(*mutate.XDP); ok && o.unreached {
		return o.listUnreached(ctx, x, out)
	}
	sample := mutate.Sample{Size: o.sample, Seed: o.seed, Skip: o.skip, At: o.at}
	if o.time > 0 {
		sample.Until = t.begun.Add(o.time)
	}
	result, err := mutate.Run(ctx, o.plane, s, sample, t.tell)
	if err != nil {
		return err
	}
	if o.json {
		err = cli.PrintJSON(out, result)
	} else {
		err = show(out, result)
	}
	if err == nil && result.Percent > o.most {
		err = fmt.Errorf("%.1f %% of the mutants survived: --most is %v", result.Percent, o.most)
	}
	return err
}

// teller shows the progress: each survivor at once, and a line now and then.
type teller struct {
	out                       io.Writer
	begun, told               time.Time
	noticed, refused, survive int
	equal                     int
}

const tellEvery = 30 * time.Second

func (t *teller) tell(m *mutate.Mutant, v mutate.Verdict) {
	switch v.Fate {
	case mutate.Noticed:
		t.noticed++
	case mutate.Refused:
		t.refused++
	case mutate.Equal:
		t.equal++
	case mutate.Survived:
		t.survive++
		fmt.Fprintf(t.out, "survived: %s %s, %s: %s %s\n", m.Function, m.Place(), m.Change, m.Text, v.Class)
	}
	if time.Since(t.told) > tellEvery {
		t.told = time.Now()
		fmt.Fprintf(t.out, "%d noticed, %d survived, %d equal, %d refused, %v\n", t.noticed, t.survive, t.equal, t.refused,
			time.Since(t.begun).Round(time.Second))
	}
}

// listUnreached prints the conditions of which the tests take one way only.
func (o *options) listUnreached(ctx context.Context, s *mutate.XDP, out io.Writer) error {
	if v, err := s.Try(ctx, nil); err != nil {
		return err
	} else if v.Fate != mutate.Survived {
		return fmt.Errorf("the unchanged code is %s by %s: %s", v.Fate, v.By, v.Why)
	}
	unreached, err := s.Unreached()
	if err != nil {
		return err
	}
	if o.json {
		return cli.PrintJSON(out, map[string]any{"mutants": len(s.Mutants()), "unreached": unreached})
	}
	table := cli.NewTable(out)
	fmt.Fprintf(table, "program\tfunction\tplace\tchange\tcondition\n")
	for i := range unreached {
		m := &unreached[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", m.Program, m.Function, m.Place(), m.Change, m.Text)
	}
	return table.Flush()
}

func show(out io.Writer, r *mutate.Result) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "plane\tmutants\tdrawn\ttried\tnoticed\tsurvived\t%%\tplaces\tequal\trefused\tseed\n")
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%d\t%d\t%d\t%d\n", r.Plane, r.Mutants, r.Drawn, r.Tried, r.Noticed,
		r.Survived, r.Percent, r.Places, r.Equal, r.Refused, r.Seed)
	if err := table.Flush(); err != nil || len(r.Survivors) == 0 {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintf(table, "survivor\tplace\tchange\tclass\tcondition\treason\n")
	for i := range r.Survivors {
		m := &r.Survivors[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Function, m.Place(), m.Change, m.Class, m.Text, m.Reason)
	}
	return table.Flush()
}
