package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/verify/sim"
)

const (
	// SimTraceLines is the number of trace lines shown for a failing run.
	SimTraceLines = 60
	// simSmallerRuns bounds the search for a smaller failing run.
	simSmallerRuns = 300
	// SimGCPercent trades memory for time; a run needs little memory.
	SimGCPercent = 400
)

// ours is this project's protocol. [cli.BenchName] has the papers'.
const ours = "netcraq"

// simFlagsOfPapers are the flags that simulations of the papers' protocols have, too.
var simFlagsOfPapers = []string{"protocol", "seeds", "first-seed", "counterexamples", "jobs", "trace", "json"}

type simFlags struct {
	seeds, first   uint64
	protocol       string
	examples       string // directory for counterexamples
	plane, without string
	quiet          string
	ops, clients   int
	keys, shards   int
	jobs           int
	trace, json    bool
	gateway        bool
	member         bool
	keyspace       bool
}

// SimResult is the output of `netcraq sim --json`.
type SimResult struct {
	Protocol         string         `json:"protocol"`
	Plane            string         `json:"plane"`
	Seeds            uint64         `json:"seeds"`
	FirstSeed        uint64         `json:"first_seed"`
	Ops              int            `json:"ops"`
	Reconfigurations int            `json:"reconfigurations"`
	Violations       int            `json:"violations"`
	SeedOfFirst      *uint64        `json:"seed_of_first"` // null: no violation
	Violation        string         `json:"violation,omitempty"`
	Counterexample   *string        `json:"counterexample"` // path of the file; null: none
	Without          string         `json:"without,omitempty"`
	UnknownOutcomes  int            `json:"unknown_outcomes"`
	Undecided        int            `json:"undecided"`
	Lost             int            `json:"lost_shards"`
	Steps            int            `json:"steps"`
	SimulatedSeconds float64        `json:"simulated_s"`
	Seconds          float64        `json:"seconds"`
	Faults           map[string]int `json:"faults"`
}

func newSimCommand() *cobra.Command {
	var flags simFlags
	c := &cobra.Command{
		Use:   "sim",
		Short: cli.ShortOf("sim"),
		Long: `Each seed is a small cluster of nodes, agents, controllers and clients. Nodes run the real chain code, or with
--plane xdp the real bytecode (as root). Agents and controllers run their real logic. The network loses, duplicates,
reorders, delays and damages messages. Machines crash, pause and come back. Agents and controllers pause and restart.
Links are cut, also in one direction. Clocks drift. Nodes join, leave and move. The invariants of spec/protocol.md are
checked after every step, and the clients' history is checked for linearizability at the end. The same seed always gives
the same run.

With --protocol netchain, netchain-32 (SEQ of 32 bits) or netcraq-published, the papers' protocols run instead: one
chain, a network that loses, duplicates and delays messages, and this project's protocol in the same runs. For each kind
of violation a short counterexample is shown and written to a file with its seed.

The two are different simulations. Seed 17 of --protocol netcraq, a cluster with its control plane, is unrelated to seed
17 of --protocol netchain. The output for a paper's protocol also has the result of this project's protocol with the same
seeds: the line of netcraq, or the field "ours" with --json.

With --gateway, gateways run with a model of etcd and of the chain's cached objects. Every answer is checked against
etcd's history: a reply with revision R must show the newest write up to R, and revisions must not decrease. --without
then takes a rule of internal/gateway/core. An unknown name lists them.

With --member, etcd members that read through the chain run with a model of etcd's log and real nodes of a chain. Every
linearizable answer must have a revision that is not below any that was shown before. --without then takes a rule of
docs/member.md. An unknown name lists them.

With --keyspace, the decisions of a keyspace on disks run with models of a chain, of disks that lose what was not synced,
and of the record in the controllers' etcd. Every state that is shown must continue all that were shown before.
--without then takes a rule of docs/keyspace.md. An unknown name lists them.

A failing seed of --protocol netcraq is run again with fewer faults and operations as long as it still fails. Its last
steps are printed and written to a file, with the command that repeats the run.`,
		Example: `  netcraq sim --seeds 1000
  netcraq sim --seeds 200 --plane xdp
  netcraq sim --first-seed 17 --seeds 1 --trace
  netcraq sim --without C1 --json
  netcraq sim --gateway --seeds 1000 --without fence
  netcraq sim --member --seeds 1000 --without session
  netcraq sim --keyspace --seeds 1000 --without seal
  netcraq sim --protocol netchain --seeds 100
  netcraq sim --protocol netcraq-published --first-seed 3 --seeds 1 --trace`,
		Args: cobra.NoArgs,
		RunE: flags.run,
	}
	f := c.Flags()
	f.Uint64Var(&flags.seeds, "seeds", 100, "number of seeds to run")
	f.Uint64Var(&flags.first, "first-seed", 1, "first seed")
	f.StringVar(&flags.protocol, "protocol", ours,
		"the simulated protocol: netcraq, or netchain, netchain-32 or netcraq-published")
	f.StringVar(&flags.examples, "counterexamples", "out/sim", "directory for counterexamples")
	f.StringVar(&flags.plane, "plane", string(sim.Chain), "code of the nodes: chain or xdp")
	f.StringVar(&flags.without, "without", "",
		"disable a rule of the protocol: R4, W2, W5, W8, W12, W14, H4, G1 to G5, L5 or C1 to C9; "+
			"with --gateway a rule of internal/gateway/core, with --member one of docs/member.md, with --keyspace one of "+
			"docs/keyspace.md")
	f.StringVar(&flags.quiet, "quiet", "", "kinds of faults to leave out, separated by commas")
	f.IntVar(&flags.ops, "ops", 0, "operations of each client (default: drawn from the seed)")
	f.IntVar(&flags.clients, "clients", 0, "number of clients (default: drawn from the seed)")
	f.IntVar(&flags.keys, "keys", 0, "number of keys (default: drawn from the seed)")
	f.IntVar(&flags.shards, "shards", 0, "number of shards (default: drawn from the seed)")
	f.IntVar(&flags.jobs, "jobs", runtime.GOMAXPROCS(0), "number of runs in parallel")
	f.BoolVar(&flags.gateway, "gateway", false, "simulate gateways in front of etcd")
	f.BoolVar(&flags.member, "member", false, "simulate etcd members that read through the chain")
	f.BoolVar(&flags.keyspace, "keyspace", false, "simulate the decisions of a keyspace on disks")
	f.BoolVar(&flags.trace, "trace", false, "show the last steps of the first seed, whether it fails or not")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

// simulatePapers lets [cli.BenchName] simulate a protocol of the papers.
func simulatePapers(c *cobra.Command, flags *simFlags) error {
	var wrong error
	c.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(simFlagsOfPapers, f.Name) {
			wrong = cli.UsageError(fmt.Errorf("--%s is not for --protocol %s", f.Name, flags.protocol))
		}
	})
	if wrong != nil {
		return wrong
	}
	return cli.Pass(c, cli.BenchName)
}

// run runs the simulation that the flags choose.
func (f *simFlags) run(c *cobra.Command, _ []string) error {
	simulate := runSim
	switch {
	case f.protocol != ours:
		return simulatePapers(c, f)
	case f.member:
		simulate = runMemberSim
	case f.gateway:
		simulate = runGatewaySim
	case f.keyspace:
		simulate = runKeyspaceSim
	}
	return simulate(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), f)
}

// draw returns the function that draws a seed's configuration within the flags.
func (f *simFlags) draw() (func(seed uint64) sim.Config, error) {
	without, err := sim.ParseRule(f.without)
	if err != nil {
		return nil, err
	}
	quiet, err := sim.ParseFaults(f.quiet)
	if err != nil {
		return nil, err
	}
	plane, err := sim.ParsePlane(f.plane)
	if err != nil {
		return nil, err
	}
	if f.seeds < 1 || f.jobs < 1 || min(f.ops, f.clients, f.keys, f.shards) < 0 {
		return nil, errors.New("numbers of seeds, jobs, operations, clients, keys and shards are positive")
	}
	draw := func(seed uint64) sim.Config {
		c := sim.Draw(seed)
		c.Plane, c.Without, c.Quiet = plane, without, c.Quiet|quiet
		c.Ops, c.Clients = cmp.Or(f.ops, c.Ops), cmp.Or(f.clients, c.Clients)
		c.Keys, c.Shards = cmp.Or(f.keys, c.Keys), cmp.Or(f.shards, c.Shards)
		return c
	}
	first := draw(f.first)
	return draw, first.Validate()
}

func runSim(ctx context.Context, out, progress io.Writer, flags *simFlags) error {
	draw, err := flags.draw()
	if err != nil {
		return cli.UsageError(err)
	}
	if flags.trace {
		return traceSim(out, draw(flags.first))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(SimGCPercent))
	began := time.Now()
	total, err := sim.Many(ctx, sim.Options{
		First: flags.first, Seeds: flags.seeds, Jobs: flags.jobs, Draw: draw,
		Found: func(seed uint64, v *sim.Violation) { fmt.Fprintf(progress, "seed %d: %s\n", seed, v.Why) },
		Report: func(t *sim.Total) {
			fmt.Fprintf(progress, "%s of %s seeds, %s operations, %s reconfigurations, %d violations\n", cli.Grouped(t.Seeds),
				cli.Grouped(flags.seeds), cli.Grouped(uint64(t.Ops)), cli.Grouped(uint64(t.Reconfigurations)), t.Violations)
		},
	})
	if err != nil {
		return err
	}
	result := newSimResult(flags, total, time.Since(began))
	if total.Violations > 0 {
		result.Counterexample, err = keepExample(progress, flags, draw(total.First))
		err = errors.Join(fmt.Errorf("%d of %d seeds show a violation", total.Violations, total.Seeds), err)
	}
	if flags.json {
		return errors.Join(err, cli.PrintJSON(out, result))
	}
	return errors.Join(err, printSim(out, result))
}

// keepExample explains a failing run to the user and in a file. It returns the file's path.
func keepExample(progress io.Writer, flags *simFlags, c sim.Config) (*string, error) {
	var text bytes.Buffer
	if err := explainSim(io.MultiWriter(progress, &text), flags, c); err != nil {
		return nil, err
	}
	file := filepath.Join(flags.examples, fmt.Sprintf("%s-%s-seed-%d.txt", ours, c.Plane, c.Seed))
	if err := WriteExample(file, text.Bytes()); err != nil {
		return nil, err
	}
	return &file, nil
}

func newSimResult(flags *simFlags, t *sim.Total, took time.Duration) *SimResult {
	r := &SimResult{
		Protocol: flags.protocol, Plane: flags.plane, Seeds: t.Seeds, FirstSeed: flags.first, Ops: t.Ops,
		Reconfigurations: t.Reconfigurations,
		Violations:       t.Violations, Violation: t.Why, Without: flags.without, UnknownOutcomes: t.Unknown,
		Undecided: t.Undecided,
		Lost:      t.Lost, Steps: t.Steps, SimulatedSeconds: t.Simulated.Seconds(), Seconds: took.Seconds(),
		Faults: t.FaultCounts(),
	}
	if t.Violations > 0 {
		r.SeedOfFirst = &t.First
	}
	return r
}

func printSim(out io.Writer, r *SimResult) error {
	table := cli.NewTable(out)
	fmt.Fprintf(table, "plane\tseeds\toperations\treconfigurations\tsteps\tsimulated s\tseconds\tviolations\n")
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.1f\t%d\n\n", r.Plane, cli.Grouped(r.Seeds), cli.Grouped(uint64(r.Ops)),
		cli.Grouped(uint64(r.Reconfigurations)), cli.Grouped(uint64(r.Steps)), r.SimulatedSeconds, r.Seconds, r.Violations)
	for _, f := range sim.AllFaults() {
		if n := r.Faults[f.String()]; n > 0 {
			fmt.Fprintf(table, "%v\t%s\n", f, cli.Grouped(uint64(n)))
		}
	}
	if r.Counterexample != nil {
		fmt.Fprintf(table, "\ncounterexample\t%s\n", *r.Counterexample)
	}
	return table.Flush()
}

// explainSim shrinks a failing run and shows how it fails.
func explainSim(out io.Writer, flags *simFlags, c sim.Config) error {
	planes := sim.NewPlanes()
	defer planes.Close()
	fmt.Fprintf(out, "seed %d fails; looking for a smaller run that fails as well\n", c.Seed)
	small, err := sim.Smaller(c, planes, simSmallerRuns)
	if err != nil {
		return err
	}
	r, err := sim.Trace(small, planes)
	if err != nil {
		return err
	}
	v := sim.Judge(&small, r)
	if v == nil {
		return fmt.Errorf("seed %d failed once and not again: the simulation is not deterministic, which is a bug too",
			c.Seed)
	}
	if err := v.Write(out, r.Trace, SimTraceLines); err != nil {
		return err
	}
	fmt.Fprintf(out, "again: %s\n", simCommand(flags, &small))
	return nil
}

// simCommand returns the command that shows a run again.
func simCommand(flags *simFlags, c *sim.Config) string {
	text := fmt.Sprintf(
		"netcraq sim --first-seed %d --seeds 1 --trace --plane %s --ops %d --clients %d --keys %d --shards %d",
		c.Seed, c.Plane, c.Ops, c.Clients, c.Keys, c.Shards)
	if c.Quiet != 0 {
		text += " --quiet " + c.Quiet.String()
	}
	if flags.without != "" {
		text += " --without " + flags.without
	}
	return text
}

// traceSim shows the end or the failure of one run.
func traceSim(out io.Writer, c sim.Config) error {
	planes := sim.NewPlanes()
	defer planes.Close()
	r, err := sim.Trace(c, planes)
	if err != nil {
		return err
	}
	if v := sim.Judge(&c, r); v != nil {
		if err := v.Write(out, r.Trace, SimTraceLines); err != nil {
			return err
		}
		return fmt.Errorf("seed %d shows a violation", c.Seed)
	}
	return sim.WriteTrace(out, r.Trace[max(0, len(r.Trace)-SimTraceLines):])
}

// WriteExample writes a counterexample to a file.
func WriteExample(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("counterexamples cannot be kept: %w; name another directory with --counterexamples", err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("counterexamples cannot be kept: %w; name another directory with --counterexamples", err)
	}
	return nil
}
