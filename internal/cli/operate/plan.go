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

// shownMoves is the number of moves that are listed without --moves.
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
		Short: "Show the shards that a change would move, without making it",
		Long: `Show the shards that a change would move, without making it.

With --simulate no cluster is needed: the command forms a cluster of any size with the controller's code, fails a node,
and measures the time that the code takes.`,
		Example: `  netcraq plan add --name n9 --label zone=b    the shards that a ninth node would get
  netcraq plan drain n2
  netcraq plan --simulate --nodes 1000 --shards 65536 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !o.simulate {
				return cli.UsageError(errors.New(
					"name a change (add, remove, drain, undrain or replicas), or give --simulate"))
			}
			return runSimulatedPlan(c.OutOrStdout(), &o)
		},
	}
	o.add(c)
	c.AddCommand(newPlanAddCommand())
	c.AddCommand(newPlanNodeCommand("remove NODE", "Show the effect of removing a node for good", "Removing node %s",
		func(name string) *controllerv1.OperateRequest {
			return &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Remove{Remove: name}}
		}))
	c.AddCommand(newPlanNodeCommand("drain NODE", "Show the effect of replacing a node in all its chains", "Draining node %s",
		func(name string) *controllerv1.OperateRequest {
			return &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: name}}
		}))
	c.AddCommand(newPlanNodeCommand("undrain NODE",
		"Show the effect of giving shards to a drained node again", "Undraining node %s",
		func(name string) *controllerv1.OperateRequest {
			return &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: name}}
		}))
	c.AddCommand(newPlanReplicasCommand())
	return c
}

func (f *planFlags) add(c *cobra.Command) {
	f.leaderFlags.add(c)
	c.Flags().BoolVar(&f.moves, "moves", false, fmt.Sprintf("list all shards that move, not only the first %d", shownMoves))
}

func newPlanAddCommand() *cobra.Command {
	var flags planFlags
	node := new(controllerv1.NodeSpec)
	c := &cobra.Command{
		Use:   "add",
		Short: "Show the shards that a new node would get",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.run(c, fmt.Sprintf("Adding node %s", node.Name),
				&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Add{Add: node}})
		},
	}
	flags.add(c)
	c.Flags().StringVar(&node.Name, "name", "new", "name of the new node, which determines its place on the ring")
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
		Args:  cli.Arguments(1),
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
		Short: "Show the effect of another number of members",
		Args:  cli.Arguments(1),
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
