package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/verify/chaos"
)

// churnLab is the default name of the lab.
const churnLab = "churn"

type churnFlags struct {
	ManagedFlags
	times, rate float64
	killEvery   time.Duration
	json        bool
}

func newLabChurnCommand(name *string) *cobra.Command {
	flags := churnFlags{ManagedFlags: ManagedDefaults()}
	c := &cobra.Command{
		Use:   "churn",
		Short: "Create and delete many times more keys than the nodes have room for",
		Long: `Brings up a managed lab of its own. Clients create keys, read and delete them, many times more than the nodes have room
for; some keys come back. Deleted keys have to make room: no write may find a full table. What the clients saw is checked for
linearizability. --kill-agents kills agents meanwhile, whose successors go on with the collection. The lab is removed at
the end.

Tombstones are collected within a few hundred milliseconds once half of a table is full. The room for them has to last for
that time: with a small --objects, limit the --rate.`,
		Example: `  netcraq lab churn --times 10 --json
  netcraq lab churn --times 100 --objects 10000
  netcraq lab churn --times 10 --kill-agents 2s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var seed uint64 // of the name only
			return runChurn(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), privateLab(c, churnLab, *name, &seed), &flags)
		},
	}
	f := c.Flags()
	f.Float64Var(&flags.times, "times", 10, "keys to create, as a multiple of --objects")
	f.Float64Var(&flags.rate, "rate", 0, "keys to create in a second, at most (default: as many as the clients can)")
	f.DurationVar(&flags.killEvery, "kill-agents", 0,
		"time between two kills of a node's agent, one node after the other (default: none is killed)")
	f.IntVar(&flags.Objects, "objects", flags.Objects, "objects that a node has room for")
	f.IntVar(&flags.Shards, "shards", flags.Shards, "number of shards, a power of two")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	flags.ManagedFlags.Add(f)
	return c
}

func runChurn(ctx context.Context, out, stderr io.Writer, name string, flags *churnFlags) error {
	if flags.times <= 0 || flags.Objects < 1 || flags.rate < 0 || flags.killEvery < 0 {
		return cli.UsageError(fmt.Errorf("--times %v --objects %d --rate %v --kill-agents %v: want more than 0 of each, or no "+
			"rate and no kills", flags.times, flags.Objects, flags.rate, flags.killEvery))
	}
	o, err := flags.Options(name)
	if err != nil {
		return err
	}
	o.Owned, o.Progress = true, progressTo(stderr)
	show := NewShow(stderr)
	r, err := chaos.Churn(ctx, chaos.ChurnOptions{
		Setup: flags.setup(o, show, TrialLogs(name, uint64(os.Getpid()))), Objects: flags.Objects, Times: flags.times, Rate: flags.rate,
		KillEvery: flags.killEvery,
		Progress:  func(keys int) { show.Event(fmt.Sprintf("%d keys created and deleted", keys)) },
	})
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return printChurn(out, stderr, flags, r)
}

func printChurn(out, stderr io.Writer, flags *churnFlags, r *chaos.ChurnResult) error {
	if !r.Linearizable {
		fmt.Fprint(stderr, r.Explain())
	}
	if flags.json {
		if err := cli.PrintJSON(out, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%d keys created and deleted in %.1f s, with room for %d at each of %d nodes: "+
			"%d writes found no room; linearizable: %t\n",
			r.Keys, r.Seconds, r.Objects, r.Nodes, r.Full, r.Linearizable)
	}
	switch {
	case r.Full > 0:
		return fmt.Errorf("%d writes found no room", r.Full)
	case !r.Linearizable:
		return errors.New("the history is not linearizable")
	}
	return nil
}
