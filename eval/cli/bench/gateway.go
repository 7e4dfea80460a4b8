package bench

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
)

// gatewayBench is the comparison and the machine on which it was made.
type gatewayBench struct {
	*etcdgateway.Result
	bench.Host
}

// Summary also names the machine.
func (g *gatewayBench) Summary() string { return g.Result.Summary() + "\n" + g.Host.String() }

// gatewayBenchLab is the lab of the gateway's chain.
const gatewayBenchLab = "benchgw"

func newBenchGatewayCommand(out *benchOutput) *cobra.Command {
	o := etcdgateway.Defaults()
	plane, nodes, cacheBytes, nearby := cli.PlaneAuto, 3, 1<<20, true
	var own ownFlags
	c := &cobra.Command{
		Use:   "gateway",
		Short: "An etcd behind a gateway that caches in a chain, compared with the same etcd without it",
		Long: `Starts etcd members with their data in memory, a chain, and one gateway. The same clients send linearizable reads of hot
keys, reads with Zipf's distribution, revision probes, and writes of keys that are placed and that are not, through
the gateway and straight to etcd, in turn within each round: first etcd's own client, then one that makes its frames itself
and so takes less of the machine from the servers. Watchers compare when events arrive. Ratios are medians of the rounds'
ratios. The chain is one of XDP nodes in a lab for root, else of nodes on sockets.

With --etcd-endpoints it compares an etcd and gateways that run already: it reads hot keys, and writes others, with few
clients, by default 8. All keys are below one prefix of its own and are deleted through the gateways at the end. No key
that gateways may cache is written past them, so nothing is excluded. etcd's revision rises by the writes.`,
		Example: `  netcraq bench gateway
  netcraq bench gateway --seconds 5 --rounds 5 --json
  netcraq bench gateway --profile gateway.pprof
  netcraq bench gateway --etcd-endpoints http://192.0.2.1:2379 --gateways 192.0.2.1:23790`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(own.etcd) > 0 {
				return own.report(c, out, &o)
			}
			if err := own.unused(c.Flags()); err != nil {
				return err
			}
			return reportBench(c, out, func(ctx context.Context) (*gatewayBench, error) {
				o.Progress = out.progress()
				r, err := runBenchGateway(ctx, o, plane, nodes, cacheBytes, nearby)
				if errors.As(err, new(*etcdgateway.OptionError)) {
					err = cli.UsageError(err)
				}
				return &gatewayBench{r, bench.ThisHost()}, err
			})
		},
	}
	f := c.Flags()
	own.add(f)
	addEtcdFlag(f, &o.Etcd)
	f.StringVar(&plane, "plane", plane, "the nodes' data plane: auto, xdp or soft")
	f.IntVar(&nodes, "nodes", nodes, "length of the chain")
	f.IntVar(&cacheBytes, "cache-bytes", cacheBytes, "bytes of the chain that the gateway may use")
	addNearbyFlag(f, &nearby)
	f.IntVar(&o.Members, "members", o.Members, "number of etcd members")
	f.IntVar(&o.Clients, "clients", o.Clients, "clients with one outstanding request each")
	f.IntVar(&o.Conns, "conns", o.Conns, "connections to the gateway, and as many to etcd's members in turn")
	f.IntVar(&o.HotKeys, "hot-keys", o.HotKeys, "number of hot keys, and of placed keys that are written")
	f.IntVar(&o.ZipfKeys, "zipf-keys", o.ZipfKeys, "number of keys of the Zipf load")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of each load in each round, for each of the two sides")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the clients' requests")
	f.StringVar(&o.Profile, "profile", "", "write a CPU profile of the gateway to this file, under the load of --profile-load")
	f.StringVar(&o.ProfileLoad, "profile-load", o.ProfileLoad, "name of the load for --profile")
	return c
}

func runBenchGateway(
	ctx context.Context, o etcdgateway.Options, plane string, nodes, cacheBytes int, nearby bool,
) (_ *etcdgateway.Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	self, err := findPrograms(&o.Etcd)
	if err != nil {
		return nil, err
	}
	chain, err := clilab.OpenChain(ctx, clilab.ChainOptions{
		Plane: plane, Name: gatewayBenchLab, Nodes: nodes, Shards: 1, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	o.Chain = chain.About
	if !nearby {
		chain.Pins = ""
	}
	if chain.Pins != "" {
		o.Chain += ", read from memory by the gateway"
	}
	o.Gateway = func(listen string, endpoints []string) []string {
		argv := []string{
			self, "gateway", "--listen", listen, "--etcd-endpoints", strings.Join(endpoints, ","), "--cluster", chain.File,
			"--cache-bytes", strconv.Itoa(cacheBytes), "--pin", etcdgateway.PlacedPrefix,
			"--pins", chain.Pins,
		}
		if o.Profile != "" {
			argv = append(argv, "--enable-pprof")
		}
		return argv
	}
	return etcdgateway.Run(ctx, o)
}
