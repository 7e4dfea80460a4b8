package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

func newLabFaultCommand(name *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "fault",
		Short: "Inject and clear faults of a lab",
		Long: `Inject and clear faults of a lab. Rates of loss, duplication and corruption are percentages of a link's frames in each direction;
the random numbers come from the kernel, without a seed.`,
		Example: `  netcraq lab fault loss 2
  netcraq lab fault duplicate 5 --link n1-n2
  netcraq lab fault partition 'n1,c1|n2,n3'
  netcraq lab fault partition 'n1>n2' --traffic data
  netcraq lab fault node-kill n2
  netcraq lab fault list
  netcraq lab fault clear`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newChanceCommand(name, lab.Loss, "lose frames"),
		newChanceCommand(name, lab.Duplicate, "deliver frames twice"),
		newChanceCommand(name, lab.Corrupt, "flip one bit of frames"),
		newBreakCommand(name, "link-down LINK", "take a link down; routes change accordingly",
			func(ctx context.Context, l *lab.Lab, link string) error {
				return l.SetLink(ctx, link, false)
			}),
		newBreakCommand(name, "link-up LINK", "bring a link up again",
			func(ctx context.Context, l *lab.Lab, link string) error {
				return l.SetLink(ctx, link, true)
			}),
		newBreakCommand(name, "node-kill NODE", "kill a node's agent and remove its data plane; its host still routes",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.KillNode(ctx, node) }),
		newBreakCommand(name, "node-off NODE", "power a node off: it stops sending and loses everything that it stored",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.PowerOff(ctx, node) }),
		newBreakCommand(name, "node-start NODE", "start a killed node, empty; a static chain with later writes refuses it",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.StartNode(ctx, node) }),
		newBreakCommand(name, "agent-kill NODE", "kill a node's agent; a data plane in the kernel keeps answering",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.KillAgent(ctx, node) }),
		newBreakCommand(name, "agent-start NODE", "start a killed agent; it takes over its data plane",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.StartAgent(ctx, node) }),
		newBreakCommand(name, "controller-kill CONTROLLER", "kill a controller",
			func(ctx context.Context, l *lab.Lab, host string) error { return l.KillAgent(ctx, host) }),
		newBreakCommand(name, "controller-start CONTROLLER", "start a killed controller with its data",
			func(ctx context.Context, l *lab.Lab, host string) error { return l.StartAgent(ctx, host) }),
		newBreakCommand(name, "pause HOST", "pause an agent or a controller (SIGSTOP)",
			func(_ context.Context, l *lab.Lab, host string) error { return l.Pause(host) }),
		newBreakCommand(name, "resume HOST", "continue a paused agent or controller (SIGCONT)",
			func(_ context.Context, l *lab.Lab, host string) error { return l.Resume(host) }),
		newPartitionCommand(name),
		newClearCommand(name),
		newFaultListCommand(name),
	)
	return c
}

func newPartitionCommand(name *string) *cobra.Command {
	var traffic string
	c := newBreakCommand(name, "partition GROUPS",
		"separate groups of hosts: n1,n2|n3, or n1>n2 to lose only packets from n1",
		func(ctx context.Context, l *lab.Lab, groups string) error {
			p, err := lab.ParsePartition(groups)
			if err != nil {
				return cli.UsageError(err)
			}
			p.Traffic = lab.Traffic(traffic)
			return l.Partition(ctx, p)
		})
	trafficFlag(c, &traffic)
	return c
}

func trafficFlag(c *cobra.Command, traffic *string) {
	c.Flags().StringVar(traffic, "traffic", string(lab.AllTraffic),
		"lost traffic: all, data (UDP: requests and messages between nodes), or control (TCP: agents and controllers)")
}

func newChanceCommand(name *string, kind lab.Kind, what string) *cobra.Command {
	var where lab.Where
	var traffic string
	c := &cobra.Command{
		Use:   string(kind) + " PERCENT",
		Short: what + ", on all links by default; 0 clears the fault",
		Args:  cli.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			percent, err := strconv.ParseFloat(strings.TrimSuffix(args[0], "%"), 64)
			if err != nil {
				return cli.UsageError(fmt.Errorf("%q is not a percentage", args[0]))
			}
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			if err := l.StrikeOnly(lab.Traffic(traffic), where); err != nil {
				return err
			}
			return l.SetFault(kind, percent, where)
		},
	}
	c.Flags().StringVar(&where.Link, "link", "", "only this link, such as n1-n2")
	c.Flags().StringVar(&where.Host, "host", "", "only the links of this host")
	c.MarkFlagsMutuallyExclusive("link", "host")
	trafficFlag(c, &traffic)
	return c
}

func newBreakCommand(name *string, use, what string, do func(context.Context, *lab.Lab, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: what,
		Args:  cli.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return do(c.Context(), l, args[0])
		},
	}
}

func newClearCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "clear",
		Short: "Clear the faults of all links; killed nodes stay down",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			return l.ClearFaults(c.Context())
		},
	}
}
