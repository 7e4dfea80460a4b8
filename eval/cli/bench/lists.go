package bench

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/lists"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
)

// listsBench is the comparison and the machine on which it was made.
type listsBench struct {
	*lists.Result
	bench.Host
}

// Summary also names the machine.
func (l *listsBench) Summary() string { return l.Result.Summary() + "\n" + l.Host.String() }

// listsBenchLab is the lab of the chain.
const listsBenchLab = "benchli"

func newBenchListsCommand(out *benchOutput) *cobra.Command {
	o := lists.Defaults()
	chain := clilab.ChainOptions{Plane: cli.PlaneAuto, Name: listsBenchLab, Nodes: 3, Shards: 16}
	c := &cobra.Command{
		Use:   "lists",
		Short: "Consistent lists of a Kubernetes API server with etcd, members that read through a chain, and both gateways",
		Long: `Starts a chain, an etcd cluster with a gateway, a cluster of netcraq etcd, and two memory gateways. A client of each does what
an API server does for a consistent list: it reads the store's revision, and waits until its watch cache has it, while it
requests progress at most every 100 ms. Another client writes other objects. The chain is one of XDP nodes in a lab for
root, else of nodes on sockets.`,
		Example: `  netcraq bench lists
  netcraq bench lists --seconds 30 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return reportBench(c, out, func(ctx context.Context) (*listsBench, error) {
				o.Progress, chain.Progress = out.progress(), out.progress()
				r, err := runBenchLists(ctx, o, chain)
				if errors.As(err, new(*etcdgateway.OptionError)) {
					err = cli.UsageError(err)
				}
				return &listsBench{r, bench.ThisHost()}, err
			})
		},
	}
	f := c.Flags()
	addEtcdFlag(f, &o.Etcd)
	f.StringVar(&chain.Plane, "plane", chain.Plane, "the chain's data plane: auto, xdp or soft")
	f.IntVar(&chain.Nodes, "chain-nodes", chain.Nodes, "length of the chain")
	f.IntVar(&o.Members, "members", o.Members, "number of members of each cluster")
	f.Float64Var(&o.Lists, "lists", o.Lists, "consistent lists a second")
	f.Float64Var(&o.Writes, "writes", o.Writes, "writes of other objects a second")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of each round, for each store")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the moments of lists and writes")
	return c
}

func runBenchLists(ctx context.Context, o lists.Options, nodes clilab.ChainOptions) (_ *lists.Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Netcraq, err = findPrograms(&o.Etcd); err != nil {
		return nil, err
	}
	chain, err := clilab.OpenChain(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	o.Chain, o.ChainFile, o.Pins = chain.About, chain.File, chain.Pins
	o.Gateway = func(listen string, endpoints []string) []string {
		return []string{
			o.Netcraq, "gateway", "--listen", listen, "--cluster", chain.File, "--etcd-endpoints", strings.Join(endpoints, ","),
		}
	}
	o.Memory = func(listen string) []string {
		return []string{o.Netcraq, "gateway", "--memory", "--listen", listen, "--cluster", chain.File}
	}
	return lists.Run(ctx, o)
}
