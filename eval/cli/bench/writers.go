package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// benchWritersLab is the lab of the writers' chain by default.
const benchWritersLab = "benchwr"

func newBenchWritersCommand(out *benchOutput) *cobra.Command {
	var o bench.WritersOptions
	chain := clilab.ChainOptions{Plane: cli.PlaneAuto, Name: benchWritersLab, Nodes: 3, Shards: 256}
	c := &cobra.Command{
		Use:   "writers",
		Short: "Many concurrent writers with sessions of their own, on nodes of default size",
		Long: `Starts a chain of nodes of default size, and writers, each with a client, and so a session in each shard, of its
own. Each writes once to each shard, all at the same time and from one address. The report counts the outcomes of the
writes, and the sessions of the node that remembers the most. A writer needs up to two sockets: "ulimit -n"
bounds --writers. The chain is one of XDP nodes in a lab for root, else of nodes on sockets.`,
		Example: `  netcraq bench writers --writers 10000 --json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return reportBench(c, out, func(ctx context.Context) (*bench.WritersResult, error) {
				o.Progress, chain.Progress = out.progress(), out.progress()
				return runBenchWriters(ctx, o, chain)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&o.Writers, "writers", 1000, "number of concurrent writers")
	f.StringVar(&chain.Plane, "plane", chain.Plane, "the nodes' data plane: auto, xdp or soft")
	f.StringVar(&chain.Name, "lab", chain.Name, "name of the lab of XDP nodes")
	f.IntVar(&chain.Nodes, "nodes", chain.Nodes, "length of the chain")
	f.IntVar(&chain.Shards, "shards", chain.Shards, "number of shards")
	return c
}

func runBenchWriters(ctx context.Context, o bench.WritersOptions, nodes clilab.ChainOptions) (
	_ *bench.WritersResult, err error,
) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	chain, err := clilab.OpenChain(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	if o.Cluster, err = client.LoadCluster(chain.File); err != nil {
		return nil, err
	}
	o.Chain = chain.About
	o.Sessions = func(ctx context.Context) (used, most uint64, err error) { return sessionsOf(ctx, o.Cluster) }
	return bench.Writers(ctx, o)
}

// sessionsOf returns how many sessions the node remembers that remembers the most, and how many it can.
func sessionsOf(ctx context.Context, c *client.Cluster) (used, most uint64, err error) {
	var targets []agent.Target
	for _, n := range c.Nodes {
		targets = append(targets, agent.Target{Name: n.Name, API: n.APIAddr()})
	}
	for _, r := range agent.Inspect(ctx, targets, nil) {
		if r.Error != "" {
			return 0, 0, fmt.Errorf("%s: %s", r.Name, r.Error)
		}
		if r.Sessions >= used {
			used, most = r.Sessions, r.MaxSessions
		}
	}
	return used, most, nil
}
