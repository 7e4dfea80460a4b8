package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/eval/bench"
	"github.com/netcraq/netcraq/internal/node/agent"
)

func newBenchPodCommand(out *benchOutput) *cobra.Command {
	o := bench.PodOptions{Ready: agent.UpMessage}
	c := &cobra.Command{
		Use:   "pod",
		Short: "One request of a pod at a time: a clean read at the address from netcraq-cni, and TCP to another pod",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := cli.ProductPath()
			if err != nil {
				return err
			}
			plugin, err := cli.FindProgram("netcraq-cni")
			if err != nil {
				return err
			}
			o.Agent = func(a bench.AgentOptions) []string { return append([]string{self}, nodeArguments(a)...) }
			o.Plugin = []string{plugin}
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.PodResult, error) { return bench.Pod(ctx, o) })
		},
	}
	c.Flags().IntVar(&o.Count, "count", 10_000, "number of reads, and of messages by TCP")
	c.Flags().IntVar(&o.ValueBytes, "value-bytes", 16, "length of the value")
	return c
}
