package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
)

func newBenchClientCommand(out *benchOutput) *cobra.Command {
	o := bench.ClientOptions{NodeOptions: bench.NodeOptions{Keys: 1000, ValueBytes: 16}}
	o.Rounds = 10 // the kernel takes samples of user and system time
	c := &cobra.Command{
		Use:   "client",
		Short: "Gets through the Go client: throughput on one CPU, CPU time and allocations per get",
		Long: `Starts a chain of nodes and reads all keys with batches of one Go client. Client and nodes share --cpus CPUs, so the
rate includes the nodes' work. The CPU times of two builds can be compared on a machine under load, their rates cannot.`,
		Example: `  netcraq bench client --keys 100000 --json
  netcraq bench client --cpus 2 --cpu-profile client.pprof`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.ClientResult, error) { return bench.Client(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	keysFlag(c, &o.Keys)
	windowFlags(c, &o.Seconds, &o.Rounds)
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 3, "length of the chain")
	f.IntVar(&o.CPUs, "cpus", 1, "CPUs for the client and the nodes together")
	f.IntVar(&o.Batch, "batch", 512, "keys of each batch; two callers on each CPU have one under way")
	f.BoolVar(&o.Names, "names", false, "give the client names (GetMany), which it hashes each time, not keys hashed before (GetKeys)")
	f.StringVar(&o.Profile, "cpu-profile", "", "write a CPU profile of the rounds to this file, for go tool pprof")
	return c
}
