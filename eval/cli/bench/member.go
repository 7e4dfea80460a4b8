package bench

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/etcdmember"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
)

// memberBench is the comparison and the machine on which it was made.
type memberBench struct {
	*etcdmember.Result
	bench.Host
}

// Summary also names the machine.
func (m *memberBench) Summary() string { return m.Result.Summary() + "\n" + m.Host.String() }

// memberBenchLab is the lab of the members' chain.
const memberBenchLab = "benchmem"

// addNearbyFlag adds the flag for reads from the memory of nodes.
func addNearbyFlag(f *pflag.FlagSet, nearby *bool) {
	f.BoolVar(nearby, "nearby", true,
		"read from the memory of XDP nodes, all of which are on this machine; else through the network")
}

func newBenchMemberCommand(out *benchOutput) *cobra.Command {
	o := etcdmember.Defaults()
	plane, nodes, nearby := cli.PlaneAuto, 3, true
	c := &cobra.Command{
		Use:   "member",
		Short: "An etcd cluster of members that read through a chain, compared with a plain one",
		Long: `Starts a chain and two etcd clusters with their data in memory: one of netcraq etcd with the chain, and one of etcd. The
same clients send ranges, lists of 100 keys, puts, transactions and mixes of ranges and puts to all members of either cluster,
in turn within each round: first etcd's own client, then one that makes its frames itself and so takes less of the machine
from the servers. Keys are drawn by Zipf's distribution. Ratios are medians of the rounds' ratios. The chain is one of XDP
nodes in a lab for root, else of nodes on sockets.`,
		Example: `  netcraq bench member
  netcraq bench member --seconds 5 --rounds 7 --json
  netcraq bench member --baseline lease`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return reportBench(c, out, func(ctx context.Context) (*memberBench, error) {
				o.Progress = out.progress()
				r, err := runBenchMember(ctx, o, plane, nodes, nearby)
				if errors.As(err, new(*etcdgateway.OptionError)) {
					err = cli.UsageError(err)
				}
				return &memberBench{r, bench.ThisHost()}, err
			})
		},
	}
	f := c.Flags()
	addEtcdFlag(f, &o.Etcd)
	f.StringVar(&o.Baseline, "baseline", o.Baseline, "what is compared: etcd, or lease, an etcd that reads by Raft's leases")
	f.StringVar(&plane, "plane", plane, "the nodes' data plane: auto, xdp or soft")
	f.IntVar(&nodes, "nodes", nodes, "length of the chain")
	addNearbyFlag(f, &nearby)
	f.IntVar(&o.Members, "members", o.Members, "number of members of each cluster")
	f.IntVar(&o.Clients, "clients", o.Clients, "clients with one outstanding request each")
	f.IntVar(&o.Conns, "conns", o.Conns, "connections to the members of each cluster in turn")
	f.IntVar(&o.Keys, "keys", o.Keys, "number of keys")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of each load in each round, for each of the two clusters")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the clients' requests")
	return c
}

func runBenchMember(
	ctx context.Context, o etcdmember.Options, plane string, nodes int, nearby bool,
) (_ *etcdmember.Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Baseline == etcdmember.BaselineLease && o.Etcd == "" {
		if o.Etcd, err = etcd.FindLease(); err != nil {
			return nil, err
		}
	}
	product, err := findPrograms(&o.Etcd)
	if err != nil {
		return nil, err
	}
	chain, err := clilab.OpenChain(ctx, clilab.ChainOptions{
		Plane: plane, Name: memberBenchLab, Nodes: nodes, Shards: 1, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	pins := ""
	o.Ours, o.About, o.Fast = "member", "chain: "+chain.About, etcdmember.FastMetric
	if nearby && chain.Pins != "" {
		pins = chain.Pins
		o.About += ", read from memory by the members"
	}
	o.Start = func(ctx context.Context) (etcdmember.Servers, error) {
		return etcdmember.StartMembers(ctx, product, chain.File, pins, o.Members)
	}
	return etcdmember.Run(ctx, o)
}
