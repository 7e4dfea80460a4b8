package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdmember"
	"github.com/netcraq/netcraq/eval/etcdstale"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
)

// staleBench counts stale reads.
type staleBench struct {
	Systems []etcdstale.Count `json:"systems"`
	Chain   string            `json:"chain"`
	Seed    uint64            `json:"seed"`
	bench.Host
}

// Table returns one row for each system.
func (s *staleBench) Table() (header []string, rows [][]string) {
	for _, n := range s.Systems {
		rows = append(rows, []string{
			n.System, fmt.Sprint(n.Rounds), fmt.Sprint(n.Reads), fmt.Sprint(n.Stale), fmt.Sprint(n.StaleRounds), fmt.Sprint(n.Fast),
		})
	}
	return []string{"reads by", "rounds", "reads", "stale", "rounds with stale reads", "through the chain"}, rows
}

// Summary explains the rows and names the machine.
func (s *staleBench) Summary() string {
	return fmt.Sprintf("Reads at a leader that was paused while others elected one and acknowledged a write. They began after that. "+
		"Chain: %s; seed %d.\n%v", s.Chain, s.Seed, s.Host)
}

// benchStaleLab is the lab of the members' chain.
const benchStaleLab = "benchstale"

func newBenchStaleCommand(out *benchOutput) *cobra.Command {
	o, compared := etcdstale.Defaults(), ""
	chain := clilab.ChainOptions{Plane: cli.PlaneAuto, Name: benchStaleLab, Nodes: 3, Shards: 1}
	c := &cobra.Command{
		Use:   "stale",
		Short: "Stale reads of a leader that is paused: etcd with Raft's leases, beside members that read through a chain",
		Long: `Starts three members of an etcd that reads by Raft's leases, and then three of netcraq etcd with a chain. In each
round the leader's process is stopped, which also stops its clock, until another member leads and has acknowledged a write,
and clients read at the stopped leader before and after it goes on. A read is stale that shows less than that write.`,
		Example: `  netcraq bench stale
  netcraq bench stale --rounds 30 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return cli.UsageError(err)
			}
			return reportBench(c, out, func(ctx context.Context) (*staleBench, error) {
				o.Progress, chain.Progress = out.progress(), out.progress()
				return runBenchStale(ctx, o, compared, chain)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&compared, "etcd", "", "path of the etcd beside the members (default: one with leases, of scripts/peers.sh etcd-lease)")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of pauses of each system's leader")
	f.IntVar(&o.Readers, "readers", o.Readers, "clients that read at the leader")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the pauses' lengths")
	f.StringVar(&chain.Plane, "plane", chain.Plane, "the nodes' data plane: auto, xdp or soft")
	return c
}

// staleMembers is how many members each system has.
const staleMembers = 3

func runBenchStale(
	ctx context.Context, o etcdstale.Options, compared string, nodes clilab.ChainOptions,
) (_ *staleBench, err error) {
	name := compared
	if compared == "" {
		name = "leases"
		if compared, err = etcd.FindLease(); err != nil {
			return nil, err
		}
	}
	product, err := cli.ProductPath()
	if err != nil {
		return nil, err
	}
	chain, err := clilab.OpenChain(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	o.Systems = []etcdstale.System{
		{Name: name, Start: func(ctx context.Context) (etcdmember.Servers, error) {
			return etcd.Start(ctx, etcd.Options{Binary: compared, Members: staleMembers})
		}},
		{Name: "the chain", Fast: etcdmember.FastReads, Start: func(ctx context.Context) (etcdmember.Servers, error) {
			return etcdmember.StartMembers(ctx, product, chain.File, chain.Pins, staleMembers)
		}},
	}
	counts, err := etcdstale.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	return &staleBench{counts, chain.About, o.Seed, bench.ThisHost()}, nil
}
