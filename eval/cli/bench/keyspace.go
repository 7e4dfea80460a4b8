package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/etcdkeyspace"
	"github.com/netcraq/netcraq/eval/etcdmember"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/platform/owned"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// keyspaceBenchLab is the lab of the keyspace's cluster.
const keyspaceBenchLab = "benchkey"

// dataInMemory is the parent directory of data that the disk must not slow down.
const dataInMemory = "/dev/shm"

func newBenchKeyspaceCommand(out *benchOutput) *cobra.Command {
	o := etcdmember.Defaults()
	o.Alone, o.Watchers = true, 1000
	parent, inMemory, fill, beside, nearby, kills := ".", false, "", "", true, 0
	c := &cobra.Command{
		Use:   "keyspace",
		Short: "A keyspace on disks compared with an etcd cluster, both with the same disks (root)",
		Long: `Starts a cluster of three XDP nodes and a controller in a lab with three gateways of a keyspace on disks, and an etcd cluster
of three members, with the data of both on the same file system. The same clients send ranges, lists of 100 keys, puts and
transactions to all servers of either side, in turn within each round: first etcd's own client, then one that makes its frames
itself. One client alone measures the latency of puts. Many watchers get the events of puts. Keys are drawn by Zipf's
distribution. Ratios are medians of the rounds' ratios. The CPU time of ours includes the nodes' agents and the controller.

With --fill there is no etcd: the keyspace is filled with so many bytes of keys and values, and compacted. The memory of the
gateways is compared with what they store, and one of them is killed and started again. With --beside the same is put into
mem_etcd, another server with etcd's API. With --kills there is no etcd either: the active gateway is killed so many times
while clients use the others.`,
		Example: `  netcraq bench keyspace
  netcraq bench keyspace --in-memory --json
  netcraq bench keyspace --fill 1GiB`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			if inMemory {
				parent = dataInMemory
			}
			if err := checkFillAndKills(fill, beside, kills); err != nil {
				return cli.UsageError(err)
			}
			if kills > 0 {
				return reportBench(c, out, func(ctx context.Context) (*takeoverBench, error) {
					r, err := runTakeOverKeyspace(ctx, o, parent, kills)
					return &takeoverBench{r, bench.ThisHost()}, err
				})
			}
			if fill != "" {
				return reportBench(c, out, func(ctx context.Context) (*filledBench, error) {
					r, err := runFillKeyspace(ctx, o, parent, fill, beside)
					return &filledBench{r, bench.ThisHost()}, err
				})
			}
			return reportBench(c, out, func(ctx context.Context) (*memberBench, error) {
				r, err := runBenchKeyspace(ctx, o, parent, nearby)
				if errors.As(err, new(*etcdgateway.OptionError)) {
					err = cli.UsageError(err)
				}
				return &memberBench{r, bench.ThisHost()}, err
			})
		},
	}
	f := c.Flags()
	addEtcdFlag(f, &o.Etcd)
	f.StringVar(&parent, "dir", parent, "`directory` on whose file system the data of both is")
	f.BoolVar(&inMemory, "in-memory", false, "have the data in memory, so that a sync costs next to nothing")
	f.StringVar(&fill, "fill", "", "fill the keyspace with `bytes`, such as 1GiB, and measure its memory, without etcd")
	f.StringVar(&beside, "beside", "", "also fill this `program`, mem_etcd: a put for each key, on both sides; with --fill")
	f.IntVar(&kills, "kills", 0, "kill the active gateway so many times and measure how long nobody writes, without etcd")
	f.IntVar(&o.Members, "gateways", o.Members, "number of gateways, and of members of etcd")
	f.IntVar(&o.Clients, "clients", o.Clients, "clients with one outstanding request each")
	f.IntVar(&o.Conns, "conns", o.Conns, "connections to the servers of each side in turn")
	f.IntVar(&o.Keys, "keys", o.Keys, "number of keys")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "time of each load in each round, for each side")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	f.IntVar(&o.Watchers, "watchers", o.Watchers, "number of watchers that get the same events; 0: none")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the clients' requests")
	addNearbyFlag(f, &nearby)
	c.MarkFlagsMutuallyExclusive("dir", "in-memory")
	return c
}

func checkFillAndKills(fill, beside string, kills int) error {
	if beside != "" && fill == "" {
		return errors.New("--beside: only with --fill")
	}
	if kills < 0 || kills > 0 && fill != "" {
		return fmt.Errorf("--kills %d: want at least 1, without --fill", kills)
	}
	return nil
}

// filledBench is a report with its machine.
type filledBench struct {
	*etcdkeyspace.Filled
	bench.Host
}

// Summary also names the machine.
func (b *filledBench) Summary() string { return b.Filled.Summary() + "\n" + b.Host.String() }

// takeoverBench is a report with its machine.
type takeoverBench struct {
	*etcdkeyspace.Takeovers
	bench.Host
}

// Summary also names the machine.
func (b *takeoverBench) Summary() string { return b.Takeovers.Summary() + "\n" + b.Host.String() }

// runTakeOverKeyspace kills active gateways.
func runTakeOverKeyspace(ctx context.Context, o etcdmember.Options, parent string, kills int) (
	r *etcdkeyspace.Takeovers, err error,
) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	product, err := cli.ProductPath()
	if err != nil {
		return nil, err
	}
	return r, withKeyspaceLab(ctx, &o, parent, func(dir string, l *lab.Lab) error {
		r, err = etcdkeyspace.TakeOver(ctx, etcdkeyspace.Options{
			Netcraq: product, Controllers: l.Controllers(), Gateways: o.Members, Dir: dir,
		}, kills)
		return err
	})
}

// runFillKeyspace fills a keyspace.
func runFillKeyspace(ctx context.Context, o etcdmember.Options, parent, size, beside string) (
	r *etcdkeyspace.Filled, err error,
) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	bytes, err := humanize.ParseBytes(size)
	if err == nil && bytes < leastFill {
		err = fmt.Errorf("want at least %s", humanize.IBytes(leastFill))
	}
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("--fill %s: %w", size, err))
	}
	product, err := cli.ProductPath()
	if err != nil {
		return nil, err
	}
	return r, withKeyspaceLab(ctx, &o, parent, func(dir string, l *lab.Lab) error {
		r, err = etcdkeyspace.Fill(ctx, etcdkeyspace.FillOptions{
			Options: etcdkeyspace.Options{Netcraq: product, Controllers: l.Controllers(), Gateways: o.Members, Dir: dir},
			Bytes:   bytes, ValueBytes: o.ValueBytes, Seed: o.Seed, Beside: beside, Progress: o.Progress,
		})
		return err
	})
}

// leastFill is the least memory that can be told from the gateways' own.
const leastFill = 1 << 20

func runBenchKeyspace(ctx context.Context, o etcdmember.Options, parent string, nearby bool) (
	r *etcdmember.Result, err error,
) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	product, err := findPrograms(&o.Etcd)
	if err != nil {
		return nil, err
	}
	return r, withKeyspaceLab(ctx, &o, parent, func(dir string, l *lab.Lab) error {
		pins, from := "", "through the network"
		if nearby {
			pins, from = l.PinsDir(), "from memory by the gateways"
		}
		o.Ours = "keyspace"
		o.About = fmt.Sprintf("keyspace: %d gateways, each a process; chain of 3 XDP nodes in a lab, read %s",
			o.Members, from)
		o.Dir = filepath.Join(dir, "etcd")
		o.Start = func(ctx context.Context) (etcdmember.Servers, error) {
			return etcdkeyspace.Start(ctx, etcdkeyspace.Options{
				Netcraq: product, Controllers: l.Controllers(), Pins: pins, Gateways: o.Members,
				Dir: filepath.Join(dir, "keyspace"),
			})
		}
		r, err = etcdmember.Run(ctx, o)
		return err
	})
}

// withKeyspaceLab calls use with a new directory for data and a lab, and removes both.
func withKeyspaceLab(ctx context.Context, o *etcdmember.Options, parent string,
	use func(dir string, l *lab.Lab) error,
) (err error) {
	dir, err := owned.Dir(parent, "netcraq-bench-", os.RemoveAll)
	if err != nil {
		return fmt.Errorf("a directory for the data: %w; --dir names another one", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := openKeyspaceLab(ctx, o.Progress)
	if err != nil {
		return err
	}
	defer func() {
		_, downErr := lab.Down(context.WithoutCancel(ctx), l.Name)
		err = errors.Join(err, downErr)
	}()
	return use(dir, l)
}

// openKeyspaceLab starts a cluster whose controller may have the record of a keyspace.
func openKeyspaceLab(ctx context.Context, progress func(string)) (*lab.Lab, error) {
	m := clilab.ManagedDefaults()
	m.Nodes, m.FormWith, m.CellBytes, m.Objects, m.Shards = m.Replicas, m.Replicas, 0, keyspaceObjects, 16
	o, err := m.Options(keyspaceBenchLab)
	if err != nil {
		return nil, err
	}
	o.Topology, o.Controllers, o.Direct, o.Owned, o.Progress = lab.Line, 1, true, true, progress
	return lab.Up(ctx, o)
}

// keyspaceObjects is the size of the nodes' tables. The keyspace's log is a ring of far fewer.
const keyspaceObjects = 20_000
