package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/wire"
)

func newBenchRejoinCommand(out *benchOutput) *cobra.Command {
	m := lab.ManagedDefaults()
	m.Nodes = m.Replicas
	o := chaos.RejoinOptions{Objects: 1_000_000, ValueBytes: 16, Changed: 0.01, Away: time.Second}
	name := benchTrialLab
	c := &cobra.Command{
		Use:   "rejoin",
		Short: "Measure the time and the copied bytes until a suspected node with its state is a full member again",
		Long: `Brings up a managed cluster in a lab and fills it. Then the last node is stopped and cut off until it is removed from
its chains and a share of the objects has been written. After that it continues. The command reports the bytes that
the node copies and the time until all chains are whole, and the same for the node without its state.`,
		Example: `  netcraq bench rejoin --objects 1000000 --changed 0.01
  netcraq bench rejoin --objects 20000 --shards 16 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Objects < 1 || o.ValueBytes < 1 || o.ValueBytes > wire.MaxValueBytes || o.Changed < 0 ||
				o.Changed > 1 || m.Replicas < 3 {
				return cli.UsageError(fmt.Errorf(
					"--objects %d --value-bytes %d --changed %v --replicas %d: at least one object, 1 to %d bytes, "+
						"want a share of 0 to 1 and chains of three, because silence removes no node from shorter ones",
					o.Objects, o.ValueBytes, o.Changed, m.Replicas, wire.MaxValueBytes))
			}
			m.Objects, m.CellBytes = o.Objects+probeRoom, o.ValueBytes
			return runTrial(c, out, &m, name, func(ctx context.Context, s chaos.Setup) (*chaos.RejoinResult, error) {
				o.Setup = s
				return chaos.Rejoin(ctx, o)
			}, printRejoin)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Objects, "objects", o.Objects, "number of objects")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value")
	f.Float64Var(&o.Changed, "changed", o.Changed, "share of the objects that is written while the node is away, 0 to 1")
	f.DurationVar(&o.Away, "away", o.Away, "how long the node is away at least")
	f.IntVar(&m.Shards, "shards", m.Shards, "number of shards, a power of two")
	f.StringVar(&name, "name", name, "name of the lab")
	m.Add(f)
	return c
}

func printRejoin(w io.Writer, r *chaos.RejoinResult) {
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprintf(table, "objects\t%s of %d bytes in %d shards, filled in %.1f s\n",
		cli.Grouped(uint64(r.Objects)), r.ValueBytes, r.Shards, r.FillS)
	fmt.Fprintf(table, "away\t%.2f s, from %d shards; %s objects were written\n", r.AwayS, r.ShardsLeft,
		cli.Grouped(uint64(r.Changed)))
	fmt.Fprintf(table, "came back with its state\twhole after %.2f s, %s bytes copied\n", r.WholeAgainS,
		cli.Grouped(r.BytesCopied))
	fmt.Fprintf(table, "came back without\twhole after %.2f s, %s bytes copied\n", r.FullCopyS,
		cli.Grouped(r.FullCopyBytes))
}
