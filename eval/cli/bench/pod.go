package bench

import (
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/peer"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/agent"
)

func newBenchPodCommand(out *benchOutput) *cobra.Command {
	o := bench.PodOptions{Ready: agent.UpMessage}
	c := &cobra.Command{
		Use:   "pod",
		Short: "One request of a pod at a time: a clean read through netcraq-cni, trips to other pods, a read of etcd",
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
			if _, err := etcd.Find(); err == nil {
				o.Etcd = startEtcdRead
			}
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.PodResult, error) { return bench.Pod(ctx, o) })
		},
	}
	c.Flags().IntVar(&o.Count, "count", 10_000, "number of requests of each kind")
	c.Flags().IntVar(&o.ValueBytes, "value-bytes", 16, "length of the value")
	return c
}

// startEtcdRead starts an etcd for a pod's reads.
func startEtcdRead(ctx context.Context, addr netip.Addr, server, client string, value []byte) (
	func(context.Context) error, func() error, error) {
	r, err := peer.StartEtcdRead(ctx, etcd.Site{Addr: addr, Namespace: server}, client, value)
	if err != nil {
		return nil, nil, err
	}
	return r.Read, r.Close, nil
}
