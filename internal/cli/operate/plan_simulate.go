package operate

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/drill"
)

// simulateFlags are the command line of `netcraq plan --simulate`.
type simulateFlags struct {
	simulate, json bool
	options        drill.Options
}

func (f *simulateFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&f.simulate, "simulate", false,
		"form a simulated cluster, fail a node, and time the controller's code")
	flags.IntVar(&f.options.Nodes, "nodes", 100, "with --simulate: number of nodes")
	flags.IntVar(&f.options.Shards, "shards", 4096, "with --simulate: number of shards, a power of two")
	flags.IntVar(&f.options.Replicas, "replicas", 3, "with --simulate: members of a chain")
	flags.IntVar(&f.options.Zones, "zones", 1, "with --simulate: number of failure domains of the nodes")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
}

func runSimulatedPlan(out io.Writer, f *simulateFlags) error {
	if err := f.options.Validate(); err != nil {
		return cli.UsageError(err)
	}
	r, err := drill.Run(f.options)
	if err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(out, r)
	}
	fmt.Fprintf(out, "%s shards, chains of %d, %s nodes in %d zones: all chains are planned in %.3f s.\n\n",
		cli.Grouped(uint64(r.Shards)),
		r.Replicas, cli.Grouped(uint64(r.Nodes)), r.Zones, r.FormS)
	fmt.Fprintf(out, "One node fails. The controller computes %.3f s in all:\n\n", r.PlanS)
	table := cli.NewTable(out)
	fmt.Fprintf(table, "  failover\t%.3f s\t%s chains go on without it; %s orders, %s\n", r.FailoverS,
		cli.Grouped(uint64(r.ShardsChanged)),
		cli.Grouped(uint64(r.OrdersSent)), admin.Bytes(uint64(r.OrderBytes)))
	fmt.Fprintf(table, "  repair\t%.3f s\t%.3f %% of all copies are made again (a node has %.3f %%), %d at once\n",
		r.PlacementS,
		100*r.MovedFraction, 100*r.FairFraction, r.CopiesAtOnce)
	fmt.Fprintf(table, "  afterwards\t\tnodes have %.3f to %.3f of a fair share\n", r.SmallestShare, r.LargestShare)
	fmt.Fprintf(table, "  memory\t\tthe controller holds %s\n", admin.Bytes(r.HeldBytes))
	return table.Flush()
}
