package operate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
)

// shownMoves is how many moves are listed unless all are asked for.
const shownMoves = 10

// planFlags are the flags of all plans.
type planFlags struct {
	leaderFlags
	moves bool
}

func newPlanCommand() *cobra.Command {
	var o simulateFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what a change would move, and change nothing",
		Long: `Show what a change would move, and change nothing.

With --simulate no cluster is needed: the controller's own code forms one of any size, loses a node, and is timed.`,
		Example: `  netcraq plan add --name n9 --label zone=b    what a ninth node would get
  netcraq plan drain n2
  netcraq plan --simulate --nodes 1000 --shards 65536 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !o.simulate {
				return cli.UsageError(errors.New(
					"say what change is meant (add, remove, drain, undrain or replicas), or --simulate"))
			}
			return runSimulatedPlan(c.OutOrStdout(), &o)
		},
	}
	o.add(c)
	c.AddCommand(newPlanAddCommand())
	c.AddCommand(newPlanNodeCommand("remove NODE", "What it means to lose a node for ever", "Removing node %s",
		func(name string) *controllerv1.OperateRequest {
			return &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Remove{Remove: name}}
		}))
	c.AddCommand(newPlanNodeCommand("drain NODE", "What it means to take a node out of all chains", "Draining node %s",
		func(name string) *controllerv1.OperateRequest {
			return &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: name}}
		}))
	c.AddCommand(newPlanNodeCommand("undrain NODE",
		"What it means to let a drained node have shards again", "Undraining node %s",
		func(name string) *controllerv1.OperateRequest {
			return &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: name}}
		}))
	c.AddCommand(newPlanReplicasCommand())
	return c
}

func (f *planFlags) add(c *cobra.Command) {
	f.leaderFlags.add(c)
	c.Flags().BoolVar(&f.moves, "moves", false, fmt.Sprintf("list every shard that moves, not the first %d", shownMoves))
}

func newPlanAddCommand() *cobra.Command {
	var flags planFlags
	node := new(controllerv1.NodeSpec)
	c := &cobra.Command{
		Use:   "add",
		Short: "What another node would get",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.run(c, fmt.Sprintf("Adding node %s", node.Name),
				&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Add{Add: node}})
		},
	}
	flags.add(c)
	c.Flags().StringVar(&node.Name, "name", "new", "name that it will have: where it stands on the ring depends on that")
	c.Flags().Uint32Var(&node.Capacity, "capacity", 100, "share of the shards, relative to other nodes")
	c.Flags().StringToStringVar(&node.Labels, "label", nil, "labels, such as zone=a")
	return c
}

func newPlanNodeCommand(use, short, what string,
	request func(name string) *controllerv1.OperateRequest) *cobra.Command {
	var flags planFlags
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.run(c, fmt.Sprintf(what, args[0]), request(args[0]))
		},
	}
	flags.add(c)
	return c
}

func newPlanReplicasCommand() *cobra.Command {
	var flags planFlags
	c := &cobra.Command{
		Use:   "replicas N",
		Short: "What another number of members would mean",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := replicasArgument(args[0])
			if err != nil {
				return err
			}
			return flags.run(c, fmt.Sprintf("%d members in each chain", n),
				&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Replicas{Replicas: n}})
		},
	}
	flags.add(c)
	return c
}

func (f *planFlags) run(c *cobra.Command, what string, request *controllerv1.OperateRequest) error {
	leader, err := f.leader()
	if err != nil {
		return err
	}
	defer leader.Close()
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	plan, err := leader.Plan(ctx, request)
	if err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(c.OutOrStdout(), plan)
	}
	moves := shownMoves
	if f.moves {
		moves = math.MaxInt
	}
	return plan.Write(c.OutOrStdout(), what, moves, cli.Colours(c.OutOrStdout()))
}
