package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/internal/verify/chaos"
)

// busyLab is the default name of the lab.
const busyLab = "busy"

type busyFlags struct {
	ManagedFlags
	seconds, stopped float64
	burners, stored  int
	writers, readers int
	seed             uint64
	fair, json       bool
}

func newLabBusyCommand(name *string) *cobra.Command {
	flags := busyFlags{ManagedFlags: ManagedDefaults()}
	c := &cobra.Command{
		Use:   "busy",
		Short: "Pause the processes of a managed cluster on a busy machine, and measure the effect",
		Long: `Brings up a managed lab of its own and takes CPU time away from it, as a hypervisor and other processes do.
Every agent and every controller is stopped for a share of the time, in pauses of 20 to 200 ms, each on its own
schedule, and busy loops compete for every CPU. There is no other fault: no node needs to be suspected, and no shard
needs to lose a copy.

Meanwhile clients write and read. Every change of the cluster's durable state is read from the controllers' etcd:
suspected counts the nodes that were removed from their chains; least_copies is the smallest number of complete copies
of any shard at any time. Then pauses and busy loops end, and the command measures the time until the cluster is whole
again. The history of the clients is checked for linearizability. The lab is removed at the end.`,
		Example: `  netcraq lab busy --seconds 60 --stopped 0.3 --burners-per-cpu 3 --json
  netcraq lab busy --seconds 60 --fair`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lab := privateLab(c, busyLab, *name, &flags.seed)
			return runBusy(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), lab, &flags)
		},
	}
	f := c.Flags()
	f.Float64Var(&flags.seconds, "seconds", 60, "duration of the pauses and busy loops")
	f.Float64Var(&flags.stopped, "stopped", 0.3,
		"share of the time during which every agent and controller is stopped, below 1")
	f.IntVar(&flags.burners, "burners-per-cpu", 3, "busy loops for each CPU")
	f.BoolVar(&flags.fair, "fair", false, "run agents and controllers without the real-time class")
	f.IntVar(&flags.stored, "objects", 10_000, "objects stored before the trial, which clients write and read")
	f.IntVar(&flags.writers, "writers", 16, "clients that write")
	f.IntVar(&flags.readers, "readers", 8, "clients that read")
	f.IntVar(&flags.Shards, "shards", flags.Shards, "number of shards, a power of two")
	f.Uint64Var(&flags.seed, "seed", 0, "seed of the pauses and of the clients' operations (default: random, printed)")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	flags.ManagedFlags.Add(f)
	return c
}

func (flags *busyFlags) check() error {
	switch {
	case flags.seconds <= 0 || flags.writers < 1 || flags.readers < 1:
		return fmt.Errorf("--seconds %v --writers %d --readers %d: each must be more than 0",
			flags.seconds, flags.writers, flags.readers)
	case flags.stored < 1 || flags.stored > flags.Objects:
		return fmt.Errorf("--objects %d: want 1 to %d objects", flags.stored, flags.Objects)
	case flags.stopped < 0 || flags.stopped >= 1:
		return fmt.Errorf("--stopped %v: want a share from 0 to below 1", flags.stopped)
	case flags.burners < 0:
		return fmt.Errorf("--burners-per-cpu %d: want 0 or more", flags.burners)
	}
	return nil
}

func runBusy(ctx context.Context, out, stderr io.Writer, name string, flags *busyFlags) error {
	if err := flags.check(); err != nil {
		return cli.UsageError(err)
	}
	flags.observed = true
	if flags.fair {
		flags.priority = scheduling.Fair
	}
	o, err := flags.Options(name)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Owned, o.Progress = true, progressTo(stderr)
	show := NewShow(stderr)
	fmt.Fprintf(stderr, "seed %d\n", flags.seed)
	trialOptions := chaos.BusyOptions{
		Setup: flags.setup(o, show, TrialLogs(name, flags.seed)),
		For:   time.Duration(flags.seconds * float64(time.Second)), Seed: flags.seed, Stopped: flags.stopped,
		Burners: flags.burners * runtime.NumCPU(), Writers: flags.writers, Readers: flags.readers,
		Objects: flags.stored, Progress: show.busy,
	}
	trialOptions.Burner = []string{self, "lab", burnCommand, "--for", trialOptions.BurnFor().String()}
	result, err := chaos.Busy(ctx, trialOptions)
	show.End()
	if err := TrialError(ctx, err); err != nil {
		return err
	}
	return printBusy(out, stderr, flags, result)
}

func printBusy(out, stderr io.Writer, flags *busyFlags, r *chaos.BusyResult) error {
	if flags.json {
		fmt.Fprint(stderr, r.Explain())
		if err := cli.PrintJSON(out, r); err != nil {
			return err
		}
	} else {
		printBusyTable(out, r)
	}
	switch {
	case !r.Linearizable:
		return errors.New("the history is not linearizable")
	case len(r.Crashes) > 0:
		return errors.New("agents or controllers ended unexpectedly")
	case !r.Whole:
		return errors.New("the cluster did not become whole again")
	}
	return nil
}

func printBusyTable(out io.Writer, r *chaos.BusyResult) {
	fmt.Fprint(out, r.Explain())
	table := cli.NewTable(out)
	defer table.Flush()
	fmt.Fprintf(table, "\nnodes suspected\t%d\tleast copies of a shard\t%d of %d\n",
		r.Suspected, r.LeastCopies, r.Replicas)
	fmt.Fprintf(table, "writes\t%s\tfailed\t%d\n", cli.Grouped(uint64(r.Writes)), r.FailedWrites)
	fmt.Fprintf(table, "reads\t%s\tfailed\t%d\n", cli.Grouped(uint64(r.Reads)), r.FailedReads)
	fmt.Fprintf(table, "longest time of a writer without a write\t%.0f ms\tof a reader without a read\t%.0f ms\n",
		r.LongestWriteGapMs, r.LongestReadGapMs)
	fmt.Fprintf(table, "whole again after\t%.1f s\tpauses\t%s, %.0f %% of the time\n",
		r.WholeAgainS, cli.Grouped(uint64(r.Pauses)), 100*r.StoppedShare)
}

// busy shows the progress of a trial on a busy machine.
func (s *Show) busy(p chaos.BusyProgress) {
	state := "whole"
	if p.State != "" {
		state = p.State
	}
	s.setLine(fmt.Sprintf("%s  suspected %d  least copies %d  %s writes %s reads  %d failed  write gap %d ms  %s",
		p.Elapsed.Round(time.Second), p.Suspected, p.LeastCopies, cli.Grouped(uint64(p.Writes)), cli.Grouped(uint64(p.Reads)),
		p.Failed, p.WriteGap.Milliseconds(), state))
}

// burnCommand is the hidden command that keeps a CPU busy for lab busy.
const burnCommand = "burn"

func newLabBurnCommand() *cobra.Command {
	var lasts time.Duration
	c := &cobra.Command{
		Use:    burnCommand,
		Short:  "Keep one CPU busy until standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := scheduling.Ordinary(); err != nil {
				return err
			}
			chaos.Burn(lasts, c.InOrStdin())
			return nil
		},
	}
	c.Flags().DurationVar(&lasts, "for", time.Minute, "how long at most")
	return c
}
