package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/wire"
)

// agentAnswerWithin bounds the wait for one agent, so that a hanging node does not block the
// status.
const agentAnswerWithin = time.Second

func newLabStatusCommand(name *string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Draw a lab: hosts, roles, counters of the nodes, faults",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			status, err := labStatus(c.Context(), l)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), status)
			}
			printStatus(c.OutOrStdout(), status)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func newFaultListCommand(name *string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the faults of links with their counters",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			status, err := l.Status()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), status.Faults)
			}
			printFaults(c.OutOrStdout(), status)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// labStatus reads a lab's status and asks its agents.
func labStatus(ctx context.Context, l *lab.Lab) (*lab.Status, error) {
	status, err := l.Status()
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	for i := range status.Hosts {
		h := &status.Hosts[i]
		if h.Role != lab.RoleNode || h.Node.Health != lab.HealthOK {
			continue
		}
		group.Go(func() {
			if err := askAgent(ctx, l, h.Name, h.Node); err != nil {
				h.Node.Health = lab.HealthMute
			}
		})
	}
	group.Wait()
	return status, nil
}

// askAgent asks from the node's own host, so that faults of links do not interfere.
func askAgent(ctx context.Context, l *lab.Lab, host string, n *lab.NodeStatus) error {
	ctx, cancel := context.WithTimeout(ctx, agentAnswerWithin)
	defer cancel()
	node, _ := l.Cluster().Node(host)
	api, conn, err := agent.Dial(node.APIAddr(), grpc.WithContextDialer(thread.DialIn(l.NamespaceFile(host))))
	if err != nil {
		return err
	}
	defer conn.Close()
	info, err := api.Info(ctx, &agentv1.InfoRequest{})
	if err != nil {
		return err
	}
	usage, err := api.Usage(ctx, &agentv1.UsageRequest{})
	if err != nil {
		return err
	}
	counters, err := api.Counters(ctx, &agentv1.CountersRequest{})
	if err != nil {
		return err
	}
	n.Plane, n.Mode, n.Why, n.Objects, n.Sessions = info.Plane, info.Mode, info.Why, usage.Objects, usage.Sessions
	n.Counters = map[string]uint64{}
	for _, c := range counters.Counters {
		n.Counters[wire.Outcome(c.Outcome).String()] += c.Messages
	}
	return nil
}

// printStatus formats the status first and adds colours to the notable parts afterwards.
func printStatus(out io.Writer, s *lab.Status) {
	w := new(strings.Builder)
	defer func() { fmt.Fprint(out, painted(w.String(), cli.Colours(out))) }()
	fmt.Fprintf(w, "\n  lab %s · %s · %v · cluster file %s\n", s.Name, s.Topology, s.Subnet, s.ClusterFile)
	if s.Owner != 0 {
		fmt.Fprintf(w, "  kept up by process %d\n", s.Owner)
	}
	fmt.Fprintf(w, "\n%s\n", s.Draw())
	printNodes(w, s)
	fmt.Fprintln(w)
	printFaults(w, s)
}

// nodeColumns are columns of the table of nodes: each sums some outcomes.
var nodeColumns = []struct {
	title    string
	outcomes []wire.Outcome
}{
	{"reads", []wire.Outcome{wire.OutcomeAnsweredClean, wire.OutcomeAnsweredTail, wire.OutcomeAnsweredRelaxed,
		wire.OutcomeAnsweredAbsent}},
	{"forwarded", []wire.Outcome{wire.OutcomeForwarded}},
	{"writes", []wire.Outcome{wire.OutcomeOrdered, wire.OutcomeApplied, wire.OutcomeCommitted}},
	{"repeated", []wire.Outcome{wire.OutcomeRepeated, wire.OutcomeStale}},
	{"damaged", []wire.Outcome{wire.OutcomeBadChecksum, wire.OutcomeTruncated, wire.OutcomeBadMagic,
		wire.OutcomeBadVersion}},
}

func printNodes(w io.Writer, s *lab.Status) {
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprint(table, "  node\trole\tplane\thealth\tobjects")
	for _, column := range nodeColumns {
		fmt.Fprint(table, "\t"+column.title)
	}
	fmt.Fprintln(table)
	for _, h := range s.Hosts {
		if h.Role != lab.RoleNode {
			continue
		}
		plane := strings.TrimSpace(h.Node.Plane + " " + h.Node.Mode)
		if plane == "" {
			plane = "-"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s", h.Name, h.ChainRole, plane, h.Node.Health, cli.Grouped(h.Node.Objects))
		for _, column := range nodeColumns {
			var sum uint64
			for _, outcome := range column.outcomes {
				sum += h.Node.Counters[outcome.String()]
			}
			fmt.Fprint(table, "\t"+cli.Grouped(sum))
		}
		fmt.Fprintln(table)
	}
}

const red = "\x1b[31m"

var paints = strings.NewReplacer(
	"╳", red+"╳"+cli.Plain, "≈", cli.Yellow+"≈"+cli.Plain, " (down)", red+" (down)"+cli.Plain,
	" "+lab.HealthOK+" ", cli.Green+" "+lab.HealthOK+" "+cli.Plain, " "+lab.HealthDead+" ",
	red+" "+lab.HealthDead+" "+cli.Plain,
	" "+lab.HealthNoAgent+" ", cli.Yellow+" "+lab.HealthNoAgent+" "+cli.Plain,
	" "+lab.HealthMute+" ", cli.Yellow+" "+lab.HealthMute+" "+cli.Plain)

func painted(text string, colour bool) string {
	if !colour {
		return text
	}
	return paints.Replace(text)
}

func printFaults(w io.Writer, s *lab.Status) {
	for _, p := range s.Partitions {
		fmt.Fprintf(w, "  partition  %v\n", p)
	}
	faulty := slices.DeleteFunc(slices.Clone(s.Directions), func(d lab.Direction) bool { return !d.Faulty() })
	if len(faulty) == 0 {
		fmt.Fprintln(w, "  links: no faults")
		return
	}
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprintln(table, "  link\tframes\tlost\tduplicated\tcorrupted\tcut by partition")
	for _, d := range faulty {
		down := ""
		if d.Down {
			down = "  (down)"
		}
		fmt.Fprintf(table, "  %s → %s%s\t%s\t%s\t%s\t%s\t%s\n", d.From, d.To, down, cli.Grouped(d.Frames),
			faultCell(d.Lost, d.Loss), faultCell(d.Duplicated, d.Duplicate),
			faultCell(d.Corrupted, d.Corrupt), cli.Grouped(d.Cut))
	}
}

// faultCell shows the counter of a fault and its current rate.
func faultCell(count uint64, percent float64) string {
	if percent == 0 {
		return cli.Grouped(count)
	}
	return fmt.Sprintf("%s (%g %%)", cli.Grouped(count), percent)
}
