package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/wire"
)

// leaderFlags are the flags of all commands that talk to the leading controller.
type leaderFlags struct {
	cluster cli.ClusterFlags
	timeout time.Duration
	json    bool
}

func (f *leaderFlags) add(c *cobra.Command) {
	f.cluster.Add(c.Flags())
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "give up if the leading controller is not found in this time")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
}

// leader returns a client of the leading controller.
func (f *leaderFlags) leader() (*admin.Leader, error) {
	if f.timeout <= 0 {
		return nil, cli.UsageError(fmt.Errorf("--timeout must be positive, not %v", f.timeout))
	}
	cluster, err := f.cluster.Read()
	if err != nil {
		return nil, err
	}
	if !cluster.Managed() {
		return nil,
			errors.New("this cluster has no controllers, its chains are fixed in its file: `netcraq status` and `netcraq inspect` " +
				"show its nodes; name a managed cluster with --controllers")
	}
	dial, err := f.cluster.Dial()
	if err != nil {
		return nil, err
	}
	return admin.NewLeader(cluster.Controllers, dial), nil
}

// operation is a command that requests a change from the leader.
type operation struct {
	leaderFlags
	wait    bool
	request *controllerv1.OperateRequest
	done    string                                                // the text printed at the end
	until   func(context.Context, *admin.Leader, io.Writer) error // waits for the consequences of the change
}

// newOperateCommands returns the commands that change a cluster.
func newOperateCommands() []*cobra.Command {
	return []*cobra.Command{newDrainCommand(), newUndrainCommand(), newRemoveNodeCommand(), newFailNodeCommand(),
		newReplicasCommand(), newMoveCommand(), newAcceptLossCommand(), newGiveUpDisksCommand()}
}

// command returns the command of an operation. details is the help text below the line short. prepare completes the
// operation from the arguments.
func (o *operation) command(use, short, details string, args int, prepare func(args []string) error) *cobra.Command {
	long := ""
	if details != "" {
		long = short + ".\n\n" + details
	}
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cli.Arguments(args),
		RunE: func(c *cobra.Command, args []string) error {
			if err := prepare(args); err != nil {
				return err
			}
			return o.run(c)
		}}
	o.add(c)
	return c
}

func (o *operation) run(c *cobra.Command) error {
	leader, err := o.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ctx, cancel := context.WithTimeout(c.Context(), o.timeout)
	change, err := leader.Operate(ctx, o.request)
	cancel()
	if err != nil {
		return err
	}
	if o.wait {
		if err := o.until(c.Context(), leader, c.ErrOrStderr()); err != nil {
			return fmt.Errorf("change %d is made, but its consequences are not complete: %w", change, err)
		}
	}
	if o.json {
		return cli.PrintJSON(c.OutOrStdout(), map[string]any{"change": change, "waited": o.wait})
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), o.done)
	return err
}

// waitFlag adds --wait.
func (o *operation) waitFlag(c *cobra.Command, until func(context.Context, *admin.Leader, func(string)) error) {
	c.Flags().BoolVar(&o.wait, "wait", false,
		"wait until all shards have been copied and moved; shows progress on a terminal")
	o.until = func(ctx context.Context, leader *admin.Leader, w io.Writer) error {
		file, ok := w.(*os.File)
		if !ok || !cli.IsTerminal(file) {
			return until(ctx, leader, func(string) {})
		}
		defer fmt.Fprint(w, cli.ClearLine)
		return until(ctx, leader, func(line string) { fmt.Fprint(w, cli.ClearLine, line) })
	}
}

func newDrainCommand() *cobra.Command {
	o := new(operation)
	var node string
	c := o.command("drain NODE", "Replace a node in all its chains",
		`Clients are not interrupted. Then the node can be stopped. After undrain it gets shards again.`,
		1, func(args []string) error {
			node = args[0]
			o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: node}}
			if o.done = "node " + node + " is being drained; watch it with `netcraq top`"; o.wait {
				o.done = "node " + node + " is in no chain"
			}
			return nil
		})
	o.waitFlag(c, func(ctx context.Context, l *admin.Leader, show func(string)) error {
		return l.WaitDrained(ctx, node, show)
	})
	return c
}

func newFailNodeCommand() *cobra.Command {
	o := new(operation)
	return o.command("fail-node NODE", "Confirm that an unreachable node has failed",
		`After a heartbeat timeout the controllers remove a node at once from chains that keep two members. From shorter chains
they remove it only after the time --sure. This command removes the node without that wait. It is refused while the node
sends heartbeats. A node that comes back joins again.`,
		1, func(args []string) error {
			o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Fail{Fail: args[0]}}
			o.done = "node " + args[0] + " is removed from its chains"
			return nil
		})
}

func newUndrainCommand() *cobra.Command {
	o := new(operation)
	c := o.command("undrain NODE", "Let a drained node get shards again", "", 1, func(args []string) error {
		o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: args[0]}}
		o.done = "node " + args[0] + " gets shards again"
		return nil
	})
	o.waitFlag(c, waitSettled)
	return c
}

func waitSettled(ctx context.Context, l *admin.Leader, show func(string)) error {
	return l.WaitSettled(ctx, show)
}

func newRemoveNodeCommand() *cobra.Command {
	o := new(operation)
	return o.command("remove-node NODE", "Remove a drained or dead node from the cluster for good",
		`Its name cannot be used again. A live node must be drained first.`,
		1, func(args []string) error {
			o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Remove{Remove: args[0]}}
			o.done = "node " + args[0] + " is removed"
			return nil
		})
}

func newReplicasCommand() *cobra.Command {
	o := new(operation)
	c := o.command("replicas N", "Change the number of members of all chains", "", 1, func(args []string) error {
		n, err := replicasArgument(args[0])
		o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Replicas{Replicas: n}}
		o.done = fmt.Sprintf("chains get %d members", n)
		return err
	})
	o.waitFlag(c, waitSettled)
	return c
}

func replicasArgument(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < 1 || n > wire.MaxChain {
		return 0, cli.UsageError(fmt.Errorf("a chain has 1 to %d members, not %q", wire.MaxChain, text))
	}
	return uint32(n), nil
}

func newMoveCommand() *cobra.Command {
	o := new(operation)
	move := new(controllerv1.Move)
	c := o.command("move --shard S --from A --to B", "Move one shard from a node to another", "", 0, func([]string) error {
		if move.From == "" || move.To == "" {
			return cli.UsageError(errors.New("give --from and --to, the names of two nodes"))
		}
		o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Move{Move: move}}
		if o.done = fmt.Sprintf("shard %d is moving from %s to %s", move.Shard, move.From, move.To); o.wait {
			o.done = fmt.Sprintf("shard %d moved from %s to %s", move.Shard, move.From, move.To)
		}
		return nil
	})
	c.Flags().Uint32Var(&move.Shard, "shard", 0, "number of the shard")
	c.Flags().StringVar(&move.From, "from", "", "node that has the shard")
	c.Flags().StringVar(&move.To, "to", "", "node that gets the shard")
	if err := c.MarkFlagRequired("shard"); err != nil {
		panic(err) // the flag was defined just above
	}
	o.waitFlag(c, func(ctx context.Context, l *admin.Leader, show func(string)) error {
		return l.WaitMoved(ctx, move, show)
	})
	return c
}

// allShards is the argument of accept-loss that names every lost shard.
const allShards = "all"

func newAcceptLossCommand() *cobra.Command {
	o := new(operation)
	var yes bool
	var command *cobra.Command
	confirmed := func(what, answer string) error {
		if yes {
			return nil
		}
		return confirm(command.InOrStdin(), command.ErrOrStderr(),
			fmt.Sprintf("All data of %s will be lost for ever. Type %s to continue: ", what, answer), answer)
	}
	command = o.command("accept-loss SHARD|all", "Give up the data of a lost shard and start it empty",
		`A shard is lost when all nodes with a complete copy of it are gone or have lost their state. If one of them can still be
started with its state, do that instead. "all" starts each lost shard empty: after the loss of power everywhere, for example.
Keyspaces on disks go on from their disks.`,
		1, func(args []string) error {
			shard, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil {
				return cli.UsageError(fmt.Errorf("a shard is a number below %d, or all, not %q", wire.MaxShards, args[0]))
			}
			o.request = &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_AcceptLoss{AcceptLoss: uint32(shard)}}
			o.done = fmt.Sprintf("shard %d starts empty", shard)
			return confirmed("shard "+args[0], args[0])
		})
	one := command.RunE
	command.RunE = func(c *cobra.Command, args []string) error {
		if args[0] != allShards {
			return one(c, args)
		}
		if err := confirmed("all lost shards", allShards); err != nil {
			return err
		}
		return o.acceptLosses(c)
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return command
}

// acceptLosses starts all lost shards empty.
func (o *operation) acceptLosses(c *cobra.Command) error {
	leader, err := o.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ctx, cancel := context.WithTimeout(c.Context(), o.timeout)
	defer cancel()
	s, err := leader.Snapshot(ctx)
	if err != nil {
		return err
	}
	accepted, err := leader.AcceptLosses(ctx, s.Shards.Total)
	switch {
	case err != nil:
		return fmt.Errorf("%s start empty; then: %w", admin.CountShards(uint64(accepted)), err)
	case accepted == 0:
		return errors.New("no shard is lost")
	case o.json:
		return cli.PrintJSON(c.OutOrStdout(), map[string]any{"shards": accepted})
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s start empty\n", admin.CountShards(uint64(accepted)))
	return err
}

// confirm asks the user on a terminal to type the answer.
func confirm(in io.Reader, out io.Writer, question, answer string) error {
	file, ok := in.(*os.File)
	if !ok || !cli.IsTerminal(file) {
		return cli.UsageError(errors.New("standard input is no terminal: confirm the command with --yes"))
	}
	fmt.Fprint(out, question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != answer {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
