package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/internal/verify/sim"
)

// Parameters of `netcraq lab check`.
const (
	checkLab     = "check" // default name of the lab
	checkNodes   = 3
	checkClients = 8
	checkSharing = 6 // workers that share one client, whose requests travel in bundles
	checkKeys    = 2
	checkKeyOps  = 400
	checkAttempt = 10 * time.Millisecond // short, so that many retries overlap their first attempt
	checkPerKey  = 30 * time.Second

	checkCorruptLink = "n1-n2" // a link that all kinds of messages cross

	checkedInLab        = "lab"
	checkedInSimulation = "simulation"
)

type checkFlags struct {
	name, plane     string
	seconds         int
	without         string
	seed            uint64
	loss, duplicate float64 // in percent
	corrupt         float64 // in percent, only in the lab
	relay           bool
	simulate, json  bool
}

// checkResult is the output of `netcraq lab check --json`.
type checkResult struct {
	Ops          int    `json:"ops"`
	Linearizable bool   `json:"linearizable"`
	Seed         uint64 `json:"seed"`
	Keys         int    `json:"keys"`
	Unknown      int    `json:"unknown_outcomes"`
	Undecided    int    `json:"undecided"`         // keys whose history took too long to check
	Bundled      uint64 `json:"bundled,omitempty"` // answers that came in bundles
	How          string `json:"how"`               // checkedInLab or checkedInSimulation
	Without      string `json:"without,omitempty"`

	verdict *history.Verdict
	broken  error // the invariant that a simulation violated
}

func newLabCheckCommand(name *string) *cobra.Command {
	flags := checkFlags{}
	c := &cobra.Command{
		Use:   "check",
		Short: "Let clients compete for few keys on a bad network, and check that the history is linearizable",
		Long: `Brings up a private lab with a chain of three. Eight clients put, get, delete, compare-and-set and add on few keys, six
of them in shared datagrams, while links lose and duplicate frames. The recorded history is checked for linearizability.
The lab is removed at the end.

--without disables one rule of the protocol, to prove that the check detects it. W5 and R4 matter only when a node
is lost, which a static configuration does not survive: for them, and with --simulate, the same protocol code runs
in a simulation with crashes and repairs, from the seed that is printed (see also netcraq sim).`,
		Example: `  netcraq lab check --seconds 10 --loss 2 --dup 2
  netcraq lab check --seconds 5 --loss 2 --dup 2 --without W8
  netcraq lab check --simulate --seconds 5 --loss 5 --dup 5 --seed 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			flags.name = privateLab(c, checkLab, *name, &flags.seed)
			return runCheck(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &flags)
		},
	}
	f := c.Flags()
	f.IntVar(&flags.seconds, "seconds", 10, "how long clients start operations")
	f.Float64Var(&flags.loss, "loss", 2, "percentage of frames that each link loses")
	f.Float64Var(&flags.duplicate, "dup", 2, "percentage of frames that each link duplicates")
	f.Float64Var(&flags.corrupt, "corrupt", 0,
		"percentage of frames in which the link "+checkCorruptLink+" flips a bit; not in a simulation")
	f.Uint64Var(&flags.seed, "seed", 0,
		"seed of the clients' operations, and of everything in a simulation (default: random, printed)")
	f.StringVar(&flags.plane, "plane", cli.PlaneXDP,
		"data plane of the nodes: xdp, soft, p4, p4runtime (p4 on a netcraq switch), p4packets (without registers) or "+
			"v1model (p4 on BMv2's simple_switch_grpc), or a list with one for each node, such as xdp,p4,xdp")
	f.StringVar(&flags.without, "without", "", "disable a rule of the protocol: W2, W5, W8 or R4")
	f.BoolVar(&flags.relay, "relay", false, "send ACKs up the chain node by node, as planes that cannot clone packets do")
	f.BoolVar(&flags.simulate, "simulate", false, "simulate the chain in this process, with crashes and repairs")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

func runCheck(ctx context.Context, out, progress io.Writer, flags *checkFlags) error {
	var rule chain.Rule
	var err error
	if flags.without != "" {
		if rule, err = chain.ParseRule(flags.without); err != nil {
			return cli.UsageError(err)
		}
	}
	if flags.seconds < 1 {
		return cli.UsageError(fmt.Errorf("--seconds %d: want at least 1", flags.seconds))
	}
	err = cmp.Or(lab.Loss.CheckPercent(flags.loss), lab.Duplicate.CheckPercent(flags.duplicate),
		lab.Corrupt.CheckPercent(flags.corrupt))
	if err != nil {
		return cli.UsageError(err)
	}
	fmt.Fprintf(progress, "seed %d\n", flags.seed)
	var result *checkResult
	switch {
	case flags.simulate || rule == chain.W5 || rule == chain.R4:
		if !flags.simulate {
			fmt.Fprintf(progress, "%s guards against the loss of a node, so this is a simulation\n", flags.without)
		}
		result, err = checkSimulation(ctx, progress, flags, rule)
	default:
		result, err = checkInLab(ctx, progress, flags)
	}
	if err != nil {
		return err
	}
	if err := printCheck(out, progress, flags, result); err != nil {
		return err
	}
	switch {
	case !result.Linearizable:
		return errors.New("the history is not linearizable")
	case result.How == checkedInLab && result.Undecided > 0:
		return errors.New("the history was not decided within the time limit: run again with fewer --seconds")
	}
	return nil
}

// checkInLab runs the workload on a private lab.
func checkInLab(ctx context.Context, progress io.Writer, flags *checkFlags) (result *checkResult, err error) {
	o := lab.Options{
		Name: flags.name, Topology: lab.Line, Nodes: checkNodes, Clients: 0, Shards: 1, Owned: true,
		Progress: progressTo(progress),
	}
	if err := setAgent(&o, flags.plane); err != nil {
		return nil, err
	}
	if flags.without != "" {
		o.AddToAgent("--without", flags.without)
	}
	if flags.relay {
		o.AddToAgent("--relay")
	}
	l, err := lab.Up(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, down := lab.Down(context.WithoutCancel(ctx), o.Name)
		err = errors.Join(err, down)
	}()
	err = errors.Join(
		l.SetFault(lab.Loss, flags.loss, lab.Where{}),
		l.SetFault(lab.Duplicate, flags.duplicate, lab.Where{}),
		// One link only: a 16-bit sum can miss a frame damaged by two links.
		l.SetFault(lab.Corrupt, flags.corrupt, lab.Where{Link: checkCorruptLink}),
	)
	if err != nil {
		return nil, err
	}
	ops, bundled, err := competingClients(ctx, progress, l, flags)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "checking %s operations; %s answers came in bundles\n",
		cli.Grouped(uint64(len(ops))), cli.Grouped(bundled))
	result = newCheckResult(flags, checkedInLab, flags.seed, history.Check(ops, checkPerKey))
	result.Bundled = bundled
	return result, nil
}

// competingClients runs the workload from this machine. It also returns the number of answers that
// came in bundles.
func competingClients(ctx context.Context, progress io.Writer, l *lab.Lab,
	flags *checkFlags) ([]history.Op, uint64, error) {
	var stores []history.Store
	var shared *client.Client
	for i := range checkClients {
		if i == 0 || i >= checkSharing {
			c, err := client.New(client.Options{Cluster: l.Cluster(), Attempt: checkAttempt, ReadFrom: client.Spread})
			if err != nil {
				return nil, 0, err
			}
			defer c.Close()
			shared = c
		}
		stores = append(stores, chaos.Store{Client: shared})
	}
	batching := stores[0].(chaos.Store).Client
	w := history.Workload{
		Clients: checkClients, Keys: checkKeys, KeyOps: checkKeyOps, Seed: flags.seed, Prefix: "check",
		For:    time.Duration(flags.seconds) * time.Second,
		Report: func(ops int) { fmt.Fprintf(progress, "%s operations\n", cli.Grouped(uint64(ops))) },
	}
	ops := w.Run(ctx, stores)
	return ops, batching.Traffic().Bundled, ctx.Err()
}

// checkSimulation runs simulations with consecutive seeds until the time is up or one fails. A key whose history takes too
// long to check does not fail; at least one is decided.
func checkSimulation(ctx context.Context, progress io.Writer, flags *checkFlags,
	rule chain.Rule) (*checkResult, error) {
	planes := sim.NewPlanes()
	defer planes.Close()
	total := &history.Verdict{}
	end := time.Now().Add(time.Duration(flags.seconds) * time.Second)
	for seed := flags.seed; ; seed++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := sim.Draw(seed)
		c.Loss, c.Duplicate, c.Relay, c.Without.Chain = flags.loss/100, flags.duplicate/100, flags.relay, rule
		c.Quiet &^= sim.Faults(1<<sim.Loss | 1<<sim.Duplicate)
		run, err := sim.Run(c, planes)
		if err != nil {
			return nil, err
		}
		v := history.Check(run.History, sim.CheckTime)
		total.Ops, total.Keys, total.Unknown = total.Ops+v.Ops, total.Keys+v.Keys, total.Unknown+v.Unknown
		for _, key := range v.Undecided {
			total.Undecided = append(total.Undecided, fmt.Sprintf("%s of seed %d", key, seed))
		}
		failed := len(v.Violations) > 0 || (rule == 0 && run.Broken != nil)
		if failed || (time.Now().After(end) && len(total.Undecided) < total.Keys) {
			fmt.Fprintf(progress, "%s simulations, seeds %d to %d\n", cli.Grouped(seed-flags.seed+1), flags.seed, seed)
			total.Violations = v.Violations
			result := newCheckResult(flags, checkedInSimulation, flags.seed, total)
			if failed {
				result.Seed, result.Linearizable = seed, false
				if run.Broken != nil {
					result.broken = run.Broken.Err
				}
			}
			return result, nil
		}
	}
}

func newCheckResult(flags *checkFlags, how string, seed uint64, v *history.Verdict) *checkResult {
	return &checkResult{
		Ops: v.Ops, Linearizable: len(v.Violations) == 0, Seed: seed, Keys: v.Keys, Unknown: v.Unknown,
		Undecided: len(v.Undecided), How: how, Without: flags.without, verdict: v,
	}
}

func printCheck(out, progress io.Writer, flags *checkFlags, r *checkResult) error {
	report := out
	if flags.json {
		report = progress
	}
	if r.broken != nil {
		fmt.Fprintln(report, r.broken)
	}
	if err := r.verdict.Write(report); err != nil {
		return err
	}
	if flags.json {
		return cli.PrintJSON(out, r)
	}
	return nil
}
