package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
)

func newBenchProtectionsCommand(out *benchOutput) *cobra.Command {
	var o bench.ProtectionOptions
	c := &cobra.Command{
		Use:   "protections",
		Short: "Measure the cost of tags and rates for each message of an XDP node",
		Long: `Measure the cost of tags and rates for each message of an XDP node.

The programs of nodes with different protections handle the same messages in turns, one at a time and outside a network,
and the kernel measures how long the programs run. A write at the head becomes an UPDATE, one at the tail an answer and
two ACKs. Rates are so high that nothing is refused.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.ProtectionResult, error) { return bench.Protections(ctx, o) })
		},
	}
	c.Flags().IntVar(&o.Rounds, "rounds", 11, "number of rounds; each has all protections in turns")
	c.Flags().IntVar(&o.Messages, "messages", 2000, "messages of each kind in a round")
	return c
}
