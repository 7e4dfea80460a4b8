package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/build"
)

// inspectFlags are the command line of `netcraq inspect`.
type inspectFlags struct {
	cluster cli.ClusterFlags
	key     string
	api     []string
	json    bool
	ready   bool
	drained bool
	timeout time.Duration
}

func newInspectCommand() *cobra.Command {
	var flags inspectFlags
	c := &cobra.Command{
		Use:   "inspect [NODE...]",
		Short: "Show the state of nodes: data planes, chains, tables, and counts of messages by outcome",
		Example: `  netcraq inspect                        every node of the cluster, side by side
  netcraq inspect n1 --json
  netcraq inspect --key fruit            one object as each node has it
  netcraq inspect --api 192.0.2.1:4412   without a cluster file
  netcraq inspect --ready --api 192.0.2.1:4412   succeed only if the node serves its shards`,
		RunE: func(c *cobra.Command, names []string) error {
			return runInspect(c.Context(), c.OutOrStdout(), &flags, names)
		},
	}
	flags.cluster.Add(c.Flags())
	c.Flags().StringArrayVar(&flags.api, "api", nil,
		"TCP address of an agent, instead of a cluster file; may be given several times")
	c.Flags().BoolVar(&flags.ready, "ready", false,
		"print nothing, and fail unless every node serves all its shards; with $NETCRAQ_API as the default of --api")
	c.Flags().BoolVar(&flags.drained, "drained", false,
		"print nothing, and fail while a node is in a chain; with $NETCRAQ_API as the default of --api")
	c.Flags().StringVar(&flags.key, "key", "", "show this key's object on every node")
	c.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	c.Flags().DurationVar(&flags.timeout, "timeout", 2*time.Second, "wait this long for the agents")
	return c
}

func runInspect(ctx context.Context, out io.Writer, flags *inspectFlags, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	if api := os.Getenv("NETCRAQ_API"); (flags.ready || flags.drained) && api != "" && len(flags.api) == 0 {
		flags.api = []string{api}
	}
	targets, err := inspectTargets(ctx, flags, names)
	if err != nil {
		return err
	}
	dial, err := flags.cluster.Dial()
	if err != nil {
		return err
	}
	reports := agent.Inspect(ctx, targets, []byte(flags.key), dial)
	switch {
	case flags.ready:
		err = checkReady(reports)
	case flags.drained:
		err = checkDrained(reports)
	case flags.json:
		err = cli.PrintJSON(out, map[string]any{"nodes": reports})
	case flags.key != "":
		err = printObjects(out, reports)
	default:
		err = printReports(out, reports)
	}
	if err != nil {
		return err
	}
	silent := slices.DeleteFunc(slices.Clone(reports), func(r *agent.Report) bool { return r.Error == "" })
	if len(silent) > 0 {
		return fmt.Errorf("%d of %d agents did not answer; at %s: %s", len(silent), len(reports),
			silent[0].API, silent[0].Error)
	}
	return nil
}

func inspectTargets(ctx context.Context, flags *inspectFlags, names []string) ([]agent.Target, error) {
	var targets []agent.Target
	if len(flags.api) > 0 {
		if len(names) > 0 || flags.cluster.File != "" || len(flags.cluster.Controllers) > 0 {
			return nil, fmt.Errorf("--api names agents by address: leave out --cluster, --controllers and node names")
		}
		for _, api := range flags.api {
			targets = append(targets, agent.Target{Name: api, API: api})
		}
		return targets, nil
	}
	m, err := flags.cluster.Present(ctx, flags.timeout)
	if err != nil {
		return nil, err
	}
	all := agent.Targets(m.Nodes)
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(t agent.Target) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the cluster has no node %q", name)
		}
		targets = append(targets, all[i])
	}
	return targets, nil
}

func printReports(out io.Writer, reports []*agent.Report) error {
	table := cli.NewTable(out)
	fmt.Fprintln(table, "NODE\tADDRESS\tPLANE\tOBJECTS\tSESSIONS\tMEMORY\tNOTE")
	for _, r := range reports {
		if r.Error != "" {
			fmt.Fprintf(table, "%s\t%s\t-\t-\t-\t-\tno answer\n", r.Name, r.API)
			continue
		}
		note := r.Why
		if len(r.WaitingFor) > 0 {
			note = "waits for " + strings.Join(r.WaitingFor, ", ")
		}
		if r.PortTrouble != "" {
			note = r.PortTrouble
		}
		if other := build.Other(r.Version); other != "" {
			note = strings.TrimPrefix(note+"; "+other, "; ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s, %s\t%s of %s\t%s of %s\t%s\t%s\n", r.Name, r.Addr, r.Plane, r.Mode,
			cli.Grouped(r.Objects), cli.Grouped(r.MaxObjects), cli.Grouped(r.Sessions), cli.Grouped(r.MaxSessions),
			humanize.IBytes(r.MemoryBytes), note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	printMemberships(out, reports)
	printChains(out, reports)
	return printCounters(out, reports)
}

// printMemberships shows how the nodes stand with their controllers, if they have any.
func printMemberships(out io.Writer, reports []*agent.Report) {
	if !slices.ContainsFunc(reports, func(r *agent.Report) bool { return r.Membership != nil }) {
		return
	}
	table := cli.NewTable(out)
	fmt.Fprintln(table, "NODE\tCLUSTER\tNUMBER\tLEASE\tTERM\tCONTROLLERS\tCOPIES HERE\tDELETING\tNOTE")
	for _, r := range reports {
		m := r.Membership
		if m == nil {
			continue
		}
		lease := "none"
		if m.LeaseLeftMS > 0 {
			lease = fmt.Sprintf("%.0f ms", m.LeaseLeftMS)
		}
		connected, note := 0, m.Refused
		for _, c := range m.Controllers {
			switch {
			case c.Trouble == "":
				connected++
			case note == "":
				note = c.Address + ": " + c.Trouble
			}
		}
		running, objects := 0, uint64(0)
		for _, c := range m.Copies {
			if !c.Complete {
				running++
				objects += c.Objects
			}
		}
		copies := "-"
		if running > 0 {
			copies = fmt.Sprintf("%s shards, %s objects", cli.Grouped(uint64(running)), cli.Grouped(objects))
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%d of %d\t%s\t%d\t%s\n", r.Name, m.Cluster, m.Node, lease, m.Term,
			connected, len(m.Controllers), copies, m.Wiping, note)
	}
	table.Flush()
	fmt.Fprintln(out)
}

// printChains lists each node's view of its chains, so that differences show.
func printChains(out io.Writer, reports []*agent.Report) {
	names := make(map[string]string)
	for _, r := range reports {
		names[r.Addr] = r.Name
	}
	table := cli.NewTable(out)
	fmt.Fprintln(table, "NODE\tEPOCH\tSTATE\tSHARDS\tCHAIN, HEAD FIRST")
	for _, r := range reports {
		for _, c := range r.Chains {
			members := make([]string, len(c.Members))
			for i, member := range c.Members {
				if members[i] = member; names[member] != "" {
					members[i] = names[member]
				}
			}
			state := c.State
			if c.Learner {
				state += ", learner"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", r.Name, c.Epoch, state, cli.Grouped(uint64(len(c.Shards))),
				strings.Join(members, " > "))
		}
	}
	table.Flush()
	fmt.Fprintln(out)
}

// printCounters sets the nodes side by side.
func printCounters(out io.Writer, reports []*agent.Report) error {
	type line struct{ op, outcome string }
	var lines []line
	messages := make(map[line]map[string]uint64)
	for _, r := range reports {
		for _, c := range r.Counters {
			l := line{c.Op, c.Outcome}
			if messages[l] == nil {
				messages[l] = make(map[string]uint64)
				lines = append(lines, l)
			}
			messages[l][r.Name] = c.Messages
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.op, b.op) })
	table := cli.NewTable(out)
	fmt.Fprint(table, "MESSAGE\tOUTCOME")
	for _, r := range reports {
		fmt.Fprint(table, "\t", r.Name)
	}
	for _, l := range lines {
		fmt.Fprintf(table, "\n%s\t%s", l.op, l.outcome)
		for _, r := range reports {
			fmt.Fprint(table, "\t", cli.Grouped(messages[l][r.Name]))
		}
	}
	fmt.Fprintln(table)
	return table.Flush()
}

func printObjects(out io.Writer, reports []*agent.Report) error {
	table := cli.NewTable(out)
	fmt.Fprintln(table, "NODE\tSTATE\tVERSION\tCOMMITTED\tREADS\tWRITES\tVALUE")
	for _, r := range reports {
		if r.Error != "" {
			fmt.Fprintf(table, "%s\tno answer\n", r.Name)
			continue
		}
		o, state := r.Object, "clean"
		switch {
		case !o.Found:
			state = "absent"
		case !o.Clean:
			state = "dirty"
		}
		value := fmt.Sprintf("%q", o.Value)
		if o.Tombstone || !o.Found {
			value = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Name, state, o.Version, o.Committed, cli.Grouped(o.Reads),
			cli.Grouped(o.Writes), value)
	}
	return table.Flush()
}
