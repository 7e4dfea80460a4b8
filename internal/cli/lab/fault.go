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
		Short: "Break a lab, and mend it",
		Long: `Break a lab, and mend it. Chances of loss, duplication and corruption are percentages of the frames of a link, in each direction;
the random numbers are the kernel's and have no seed.`,
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
		newChanceCommand(name, lab.Corrupt, "turn over one bit of frames"),
		newBreakCommand(name, "link-down LINK", "switch a link off; routes follow", func(ctx context.Context, l *lab.Lab, link string) error {
			return l.SetLink(ctx, link, false)
		}),
		newBreakCommand(name, "link-up LINK", "switch a link on again", func(ctx context.Context, l *lab.Lab, link string) error {
			return l.SetLink(ctx, link, true)
		}),
		newBreakCommand(name, "node-kill NODE", "kill a node's agent and take its data plane away; its host still routes",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.KillNode(ctx, node) }),
		newBreakCommand(name, "node-off NODE", "take a node's power: nothing it sent a moment later arrives, and all it stored is gone",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.PowerOff(ctx, node) }),
		newBreakCommand(name, "node-start NODE", "start a killed node, empty: a static chain that has taken writes will not have it back",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.StartNode(ctx, node) }),
		newBreakCommand(name, "agent-kill NODE", "kill a node's agent; a data plane in the kernel goes on answering",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.KillAgent(ctx, node) }),
		newBreakCommand(name, "agent-start NODE", "start a killed agent; it picks its data plane up",
			func(ctx context.Context, l *lab.Lab, node string) error { return l.StartAgent(ctx, node) }),
		newBreakCommand(name, "controller-kill CONTROLLER", "kill a controller",
			func(ctx context.Context, l *lab.Lab, host string) error { return l.KillAgent(ctx, host) }),
		newBreakCommand(name, "controller-start CONTROLLER", "start a killed controller; it finds its data again",
			func(ctx context.Context, l *lab.Lab, host string) error { return l.StartAgent(ctx, host) }),
		newBreakCommand(name, "pause HOST", "stop an agent or a controller where it is (SIGSTOP)",
			func(_ context.Context, l *lab.Lab, host string) error { return l.Pause(host) }),
		newBreakCommand(name, "resume HOST", "let it go on (SIGCONT)",
			func(_ context.Context, l *lab.Lab, host string) error { return l.Resume(host) }),
		newPartitionCommand(name),
		newClearCommand(name),
		newFaultListCommand(name),
	)
	return c
}

func newPartitionCommand(name *string) *cobra.Command {
	var traffic string
	c := newBreakCommand(name, "partition GROUPS", "cut groups of hosts off from one another: n1,n2|n3, or n1>n2 if only what n1 sends is lost",
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
	c.Flags().StringVar(traffic, "traffic", string(lab.AllTraffic), "what is lost: all, data (UDP: requests, and what nodes tell each other), or control (TCP: agents and controllers)")
}

func newChanceCommand(name *string, kind lab.Kind, what string) *cobra.Command {
	var where lab.Where
	var traffic string
	c := &cobra.Command{
		Use:   string(kind) + " PERCENT",
		Short: what + ", on all links unless told otherwise; 0 ends it",
		Args:  cobra.ExactArgs(1),
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
		Args:  cobra.ExactArgs(1),
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
		Short: "Mend all links; nodes that were killed stay dead",
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
