package bench

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/agent"
)

func newBenchRestartCommand(out *benchOutput) *cobra.Command {
	o := bench.RestartOptions{Ready: agent.UpMessage}
	c := &cobra.Command{
		Use:   "restart",
		Short: "Answers lost while the nodes' agents are killed and restarted under load",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := cli.ProductPath()
			if err != nil {
				return err
			}
			o.Agent = func(a bench.AgentOptions) []string { return append([]string{self}, nodeArguments(a)...) }
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.RestartResult, error) { return bench.Restart(ctx, o) })
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 3, "length of the chain")
	f.IntVar(&o.Keys, "keys", 1000, "number of keys, which requests name equally often")
	f.IntVar(&o.ValueBytes, "value-bytes", 16, "length of every value")
	f.Float64Var(&o.Rate, "rate", 100_000, "requests per second")
	f.IntVar(&o.Kills, "kills", 2, "how often each agent is killed under reads, and again under writes")
	return c
}

// nodeArguments returns the command line of `netcraq node` for an agent of a benchmark.
func nodeArguments(a bench.AgentOptions) []string {
	args := []string{
		"node", "--name", a.Name, "--cluster", a.Cluster, "--plane", cli.PlaneXDP, "--pin", a.Pin,
		"--objects", strconv.Itoa(a.Chain.MaxObjects), "--sessions", strconv.Itoa(a.Chain.MaxSessions),
		"--cell-bytes", strconv.Itoa(a.Chain.CellBytes),
	}
	for _, port := range a.Ports {
		args = append(args, "--port-if", port)
	}
	if a.Pods.IsValid() {
		args = append(args, "--pod-addr", a.Pods.String(), "--pod-dir", a.PodDir)
	}
	return args
}
