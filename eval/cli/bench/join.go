package bench

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/wire"
)

// probeRoom is the capacity for the measuring clients' objects, besides --objects.
const probeRoom = 10_000

func newBenchJoinCommand(out *benchOutput) *cobra.Command {
	m := lab.ManagedDefaults()
	m.Nodes = m.Replicas
	o := chaos.JoinOptions{Objects: 1_000_000, ValueBytes: 16}
	name := benchTrialLab
	c := &cobra.Command{
		Use:   "join",
		Short: "Measure the pause of writes and the time of the copy when a node joins chains with many objects",
		Long: `Brings up a managed cluster in a lab without its last node, fills it, and lets that node join while clients write and
read. If the cluster has as many nodes as a chain has members, the node joins all chains and copies every object. With
more nodes it takes its share of the shards from the others. The pauses include the time that a client waits between two
operations.`,
		Example: `  netcraq bench join --objects 1000000
  netcraq bench join --objects 100000 --nodes 4 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Objects < 1 || o.ValueBytes < 1 || o.ValueBytes > wire.MaxValueBytes || m.Nodes < 2 {
				return cli.UsageError(fmt.Errorf("--objects %d --value-bytes %d --nodes %d: want at least one object, "+
					"1 to %d bytes and at least two nodes",
					o.Objects, o.ValueBytes, m.Nodes, wire.MaxValueBytes))
			}
			m.Objects, m.CellBytes, m.FormWith = o.Objects+probeRoom, max(o.ValueBytes, len(chaos.ProbeValue)), m.Nodes-1
			return runTrial(c, out, &m, name, func(ctx context.Context, s chaos.Setup) (*chaos.JoinResult, error) {
				o.Setup = s
				return chaos.Join(ctx, o)
			}, printJoin)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Objects, "objects", o.Objects, "number of objects")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value")
	f.IntVar(&m.Shards, "shards", m.Shards, "number of shards, a power of two")
	f.StringVar(&name, "name", name, "name of the lab")
	m.Add(f)
	return c
}

func printJoin(w io.Writer, r *chaos.JoinResult) {
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprintf(table, "objects\t%s of %d bytes, filled in %.1f s\n", cli.Grouped(uint64(r.Objects)),
		r.ValueBytes, r.FillS)
	fmt.Fprintf(table, "copied\t%d of %d shards, %.1f MB in %.2f s: %.1f MB/s\n", r.ShardsCopied, r.Shards,
		r.CopiedMB, r.CopyS, r.MBPerS)
	fmt.Fprintf(table, "meanwhile\t%.0f writes/s and %.0f reads/s\n", r.WritesPerS, r.ReadsPerS)
	fmt.Fprintf(table, "writes of a shard paused\t%.1f ms at most, %.1f ms in the median of %d shards\n",
		r.WritePauseMs, r.WritePauseMedianMs, r.ShardsWatched)
	fmt.Fprintf(table, "before, for comparison\t%.1f ms\n", r.BeforeMs)
	fmt.Fprintf(table, "reads of a shard paused\t%.1f ms at most\n", r.ReadGapMs)
	fmt.Fprintf(table, "\nEvery pause includes the %.0f ms that a client waits.\n", r.PauseMs)
}
