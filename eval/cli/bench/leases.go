package bench

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/leases"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
)

// leasesBench is the comparison and the machine on which it was made.
type leasesBench struct {
	*leases.Result
	bench.Host
}

// Summary also names the machine.
func (l *leasesBench) Summary() string { return l.Result.Summary() + "\n" + l.Host.String() }

// leasesBenchLab is the lab of the gateways' chain.
const leasesBenchLab = "benchle"

func newBenchLeasesCommand(out *benchOutput) *cobra.Command {
	o := leases.Defaults()
	chain := clilab.ChainOptions{Plane: cli.PlaneAuto, Name: leasesBenchLab, Nodes: 3, Shards: 16}
	c := &cobra.Command{
		Use:   "leases",
		Short: "Kubernetes' node leases on memory gateways, compared with an etcd",
		Long: `Starts etcd members with their data in memory, a chain, and two memory gateways. Simulated nodes renew their
leases as Kubernetes' API server does, as fast as they can, on the gateways and on the etcd in turn. Then the active
gateway is killed under load. A server that answers at once shows the rate that the clients can reach on this machine.
Every acknowledged renewal is compared with what is stored afterwards. The chain is one
of XDP nodes in a lab for root, else of nodes on sockets.`,
		Example: `  netcraq bench leases
  netcraq bench leases --nodes 10000 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return reportBench(c, out, func(ctx context.Context) (*leasesBench, error) {
				o.Progress, chain.Progress = out.progress(), out.progress()
				r, err := runBenchLeases(ctx, o, chain)
				if errors.As(err, new(*etcdgateway.OptionError)) {
					err = cli.UsageError(err)
				}
				return &leasesBench{r, bench.ThisHost()}, err
			})
		},
	}
	f := c.Flags()
	addEtcdFlag(f, &o.Etcd)
	f.StringVar(&chain.Plane, "plane", chain.Plane, "the chain's data plane: auto, xdp or soft")
	f.IntVar(&chain.Nodes, "chain-nodes", chain.Nodes, "length of the chain")
	f.IntVar(&o.Nodes, "nodes", o.Nodes, "number of Kubernetes nodes, with a lease each")
	f.IntVar(&o.Workers, "workers", o.Workers, "renewals under way at once")
	f.IntVar(&o.Conns, "conns", o.Conns, "connections to the gateways in turn, and as many to etcd's members")
	f.IntVar(&o.Members, "members", o.Members, "number of etcd members")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every lease object")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of each load in each round, for each of the two sides")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	return c
}

func runBenchLeases(ctx context.Context, o leases.Options, nodes clilab.ChainOptions) (_ *leases.Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	self, err := findPrograms(&o.Etcd)
	if err != nil {
		return nil, err
	}
	chain, err := clilab.OpenChain(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	o.Chain = chain.About
	o.Gateway = func(listen string) []string {
		return []string{self, "gateway", "--memory", "--listen", listen, "--cluster", chain.File}
	}
	return leases.Run(ctx, o)
}
