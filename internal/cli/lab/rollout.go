package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// rolloutLab is the default name of the lab.
const rolloutLab = "rollout"

type rolloutFlags struct {
	ManagedFlags
	trial chaos.RolloutOptions
	json  bool
}

func newLabRolloutCommand(name *string) *cobra.Command {
	flags := rolloutFlags{ManagedFlags: ManagedDefaults()}
	flags.Shards = 64
	o := &flags.trial
	c := &cobra.Command{
		Use:   "rollout",
		Short: "Replace the agents of a managed cluster one by one, and measure the effect",
		Long: `Brings up a managed lab of its own and replaces the agents of its nodes one by one, as a rolling update does, while
clients write and read. The data planes stay in the kernel. A moment before an agent ends, another node is drained or
taken back, so that chains change at that time; --still leaves that out. The history of the clients is checked for
linearizability. The lab is removed at the end.`,
		Example: `  netcraq lab rollout --json
  netcraq lab rollout --kill --rounds 3`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			own := privateLab(c, rolloutLab, *name, &o.Seed)
			return runRollout(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), own, &flags)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rounds, "rounds", 2, "times that each agent is replaced")
	f.DurationVar(&o.Away, "away", time.Second, "least time between the end of an agent and the start of the next one")
	f.DurationVar(&o.Rest, "rest", time.Second, "time between the start of an agent and the end of that of another node")
	f.BoolVar(&o.Kill, "kill", false, "kill the agents, so that they announce nothing")
	f.BoolVar(&o.Still, "still", false, "drain no nodes")
	f.IntVar(&o.Objects, "objects", 2000, "objects stored before the trial, which clients write and read")
	f.IntVar(&o.Writers, "writers", 16, "clients that write")
	f.IntVar(&o.Readers, "readers", 8, "clients that read")
	f.IntVar(&flags.Shards, "shards", flags.Shards, "number of shards, a power of two")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the clients' operations and of these moments (default: random, printed)")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	flags.ManagedFlags.Add(f)
	return c
}

func (flags *rolloutFlags) check() error {
	switch o := &flags.trial; {
	case o.Rounds < 1 || o.Writers < 1 || o.Readers < 1:
		return fmt.Errorf("--rounds %d --writers %d --readers %d: each must be at least 1", o.Rounds, o.Writers, o.Readers)
	case o.Objects < 1 || o.Objects > flags.Objects:
		return fmt.Errorf("--objects %d: want 1 to %d objects", o.Objects, flags.Objects)
	case o.Away < 0 || o.Rest < 0:
		return fmt.Errorf("--away %v --rest %v: want no less than 0", o.Away, o.Rest)
	case !o.Still && flags.Nodes <= flags.Replicas:
		return fmt.Errorf("with %d nodes and chains of %d none can be drained: more --nodes, or --still", flags.Nodes, flags.Replicas)
	}
	return nil
}

func runRollout(ctx context.Context, out, stderr io.Writer, name string, flags *rolloutFlags) error {
	if err := flags.check(); err != nil {
		return cli.UsageError(err)
	}
	flags.observed = true
	o, err := flags.Options(name)
	if err != nil {
		return err
	}
	o.Owned, o.Progress = true, progressTo(stderr)
	show := NewShow(stderr)
	fmt.Fprintf(stderr, "seed %d\n", flags.trial.Seed)
	flags.trial.Setup = flags.setup(o, show, TrialLogs(name, flags.trial.Seed))
	flags.trial.Drain = drainNode
	r, err := chaos.Rollout(ctx, flags.trial)
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return printRollout(out, stderr, flags.json, r)
}

// drainNode drains a node of a lab, or takes it back.
func drainNode(ctx context.Context, l *lab.Lab, node string, out bool) error {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	request := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: node}}
	if out {
		request.Kind = &controllerv1.OperateRequest_Drain{Drain: node}
	}
	_, err := leader.Operate(ctx, request)
	return err
}

func printRollout(out, stderr io.Writer, asJSON bool, r *chaos.RolloutResult) error {
	if asJSON {
		fmt.Fprint(stderr, r.Explain())
		if err := cli.PrintJSON(out, r); err != nil {
			return err
		}
	} else {
		printRolloutTable(out, r)
	}
	switch {
	case !r.Linearizable:
		return errors.New("the history is not linearizable")
	case r.FailedWrites+r.FailedReads > 0:
		return fmt.Errorf("%d writes and %d reads failed", r.FailedWrites, r.FailedReads)
	case !r.Whole:
		return errors.New("the cluster did not become whole again")
	}
	return nil
}

func printRolloutTable(out io.Writer, r *chaos.RolloutResult) {
	fmt.Fprint(out, r.Explain())
	table := cli.NewTable(out)
	defer table.Flush()
	fmt.Fprintf(table, "\nagents replaced\t%d, %d released\tlongest end of one\t%.0f ms\n", r.Replaced, r.Released, r.LongestEndMs)
	fmt.Fprintf(table, "longest write\t%.0f ms\tlongest read\t%.0f ms\n", r.LongestWriteMs, r.LongestReadMs)
	fmt.Fprintf(table, "writes\t%s\tfailed\t%d\n", cli.Grouped(uint64(r.Writes)), r.FailedWrites)
	fmt.Fprintf(table, "reads\t%s\tfailed\t%d\n", cli.Grouped(uint64(r.Reads)), r.FailedReads)
	fmt.Fprintf(table, "nodes suspected\t%d\tleast copies of a shard\t%d of %d\n", r.Suspected, r.LeastCopies, r.Replicas)
	fmt.Fprintf(table, "drained, taken back\t%d\tchanges of the state\t%d\n", r.Drains, r.Changes)
}
