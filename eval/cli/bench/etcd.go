package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdstudy"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli"
)

// etcdFlags are the flags that all parts of the etcd study share.
type etcdFlags struct {
	harness etcdstudy.HarnessOptions
	load    etcdstudy.Load
	seconds float64
}

// add adds the flags; unlimited is the default of --unlimited.
func (e *etcdFlags) add(c *cobra.Command, unlimited bool) {
	f := c.Flags()
	addEtcdFlag(f, &e.harness.Binary)
	f.IntVar(&e.harness.Conns, "conns", 0, "connections, each to one member in turn; 0: as in the study")
	f.IntVar(&e.load.Clients, "clients", 0, "clients with one outstanding request each; 0: as in the study, 1000")
	f.IntVar(&e.load.KeyBytes, "key-bytes", 0, "length of keys; 0: as in the study, 256")
	f.IntVar(&e.load.ValueBytes, "value-bytes", 0, "length of values; 0: the default of etcd's own benchmark, 8")
	f.Float64Var(&e.seconds, "seconds", 5, "time of each measurement, after every client's first answer")
	f.Uint64Var(&e.load.Seed, "seed", 1, "seed of the clients' requests")
	f.Float64Var(&e.harness.Share, "share", 0, fmt.Sprintf("CPUs for each member; 0: %.2g here, with which %d fit",
		etcdstudy.Share(), etcdstudy.LargestCluster))
	f.BoolVar(&e.harness.Unlimited, "unlimited", unlimited, "do not limit the members' CPU time")
}

// addEtcdFlag adds the flag of the etcd server.
func addEtcdFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "etcd", "",
		"the etcd server (default: $"+etcd.BinaryVariable+", the build of scripts/peers.sh, or one on PATH)")
}

// findPrograms finds the etcd server, unless the flag names one, and the product's program.
func findPrograms(server *string) (product string, err error) {
	if *server == "" {
		if *server, err = etcd.Find(); err != nil {
			return "", err
		}
	}
	return cli.ProductPath()
}

// complete sets the fields that flags cannot set directly. --share overrides the default of
// --unlimited.
func (e *etcdFlags) complete(c *cobra.Command) error {
	if e.seconds <= 0 {
		return cli.UsageError(fmt.Errorf("--seconds: more than 0, not %v", e.seconds))
	}
	e.load.Duration = time.Duration(e.seconds * float64(time.Second))
	if e.harness.Share > 0 && !c.Flags().Changed("unlimited") {
		e.harness.Unlimited = false
	}
	return nil
}

func newBenchEtcdCommand(out *benchOutput) *cobra.Command {
	c := &cobra.Command{
		Use:   "etcd",
		Short: "Repeat the measurements of a study of etcd's scalability",
		Long: `Starts clusters of etcd servers with their data in memory and measures them. To compare clusters of 1 to 11
members on one machine, each member gets the same share of a CPU (control groups, root); the study gave each
member a core. The command removes everything that it makes.`,
	}
	c.AddCommand(newEtcdMembersCommand(out), newEtcdPipelineCommand(out), newEtcdBatchingCommand(out))
	return c
}

func newEtcdMembersCommand(out *benchOutput) *cobra.Command {
	flags, o := new(etcdFlags), etcdstudy.MembersOptions{}
	c := &cobra.Command{
		Use:   "members",
		Short: "Throughput of mixed transactions against the number of members, and the fitted law of scalability",
		Long: `The load is txn-mixed of etcd's own benchmark: half of the transactions read all keys, half put one key.
Linearizable and serializable reads alternate on each cluster. The Universal Scalability Law is fitted to the results,
with 95 % intervals from 400 resamples of the residuals.`,
		Example: `  netcraq bench etcd members --sizes 1,3,5,7,9,11 --rounds 3
  netcraq bench etcd members --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.complete(c); err != nil {
				return err
			}
			o.Harness, o.Load, o.Progress = flags.harness, flags.load, etcdstudy.Progress(out.progress())
			return runStudy(c, out, func(ctx context.Context) (*etcdMembers, error) {
				result, err := etcdstudy.Members(ctx, o)
				return &etcdMembers{result, bench.ThisHost()}, err
			})
		},
	}
	flags.add(c, false)
	c.Flags().IntSliceVar(&o.Sizes, "sizes", etcdstudy.QuickMembers, "numbers of members")
	c.Flags().IntVar(&o.Rounds, "rounds", 1, "rounds; each measures all sizes")
	return c
}

func newEtcdPipelineCommand(out *benchOutput) *cobra.Command {
	flags, o := new(etcdFlags), etcdstudy.PipelineOptions{}
	c := &cobra.Command{
		Use:   "pipeline",
		Short: "Parts of the time of a put: API, Raft, WAL, MVCC, backend",
		Long: `CPU time comes from profiles of all members, by the innermost function of etcd. Timers are etcd's own
histograms. The store alone is MVCC and backend in this process. The members' CPU time is not limited, because
profiles need samples.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.complete(c); err != nil {
				return err
			}
			o.Harness, o.Load, o.Progress = flags.harness, flags.load, etcdstudy.Progress(out.progress())
			return runStudy(c, out, func(ctx context.Context) (*etcdPipeline, error) {
				result, err := etcdstudy.Pipeline(ctx, o)
				return &etcdPipeline{result, bench.ThisHost()}, err
			})
		},
	}
	flags.add(c, true)
	c.Flags().IntSliceVar(&o.Sizes, "sizes", []int{1, 3}, "numbers of members")
	for _, name := range []string{"share", "unlimited"} {
		_ = c.Flags().MarkHidden(name) // cannot fail: add defined the flag
	}
	return c
}

func newEtcdBatchingCommand(out *benchOutput) *cobra.Command {
	flags, o := new(etcdFlags), etcdstudy.BatchingOptions{}
	c := &cobra.Command{
		Use:   "batching",
		Short: "Gains and costs of batching puts in one transaction and of dropping overwritten ones",
		Long: `Each connection stands for a machine whose clients share a batcher. The series are full (uniform keys), light
(one client per connection, so that a delay gains nothing), merged (keys with Zipf's distribution; overwritten puts of
a batch are dropped), dally (the same with the largest batches that etcd accepts, and growing delays). A put is
answered when its transaction is durable.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.complete(c); err != nil {
				return err
			}
			members := o.Harness.Members
			o.Harness, o.Load, o.Progress = flags.harness, flags.load, etcdstudy.Progress(out.progress())
			o.Harness.Members = members
			return runStudy(c, out, func(ctx context.Context) (*etcdBatching, error) {
				result, err := etcdstudy.Batching(ctx, o)
				return &etcdBatching{result, bench.ThisHost()}, err
			})
		},
	}
	flags.add(c, true)
	c.Flags().IntVar(&o.Harness.Members, "members", 3, "servers")
	c.Flags().IntSliceVar(&o.Sizes, "sizes", etcdstudy.BatchSizes, "keys per transaction")
	c.Flags().DurationSliceVar(&o.Delays, "delays", etcdstudy.Delays, "delays during which puts can be replaced")
	return c
}

// runStudy runs a part of the study and prints it.
func runStudy[R bench.Report](c *cobra.Command, out *benchOutput, run func(context.Context) (R, error)) error {
	return reportBench(c, out, func(ctx context.Context) (R, error) {
		r, err := run(ctx)
		if errors.As(err, new(*etcdstudy.OptionError)) {
			err = cli.UsageError(err)
		}
		return r, err
	})
}

// etcdMembers, etcdPipeline and etcdBatching are results together with the machine.
type (
	etcdMembers struct {
		*etcdstudy.MembersResult
		bench.Host
	}
	etcdPipeline struct {
		*etcdstudy.PipelineResult
		bench.Host
	}
	etcdBatching struct {
		*etcdstudy.BatchingResult
		bench.Host
	}
)

// Table returns one row per cell.
func (e *etcdMembers) Table() ([]string, [][]string) {
	var rows [][]string
	for _, cell := range e.Cells {
		rows = append(rows, []string{
			fmt.Sprint(cell.Members), string(cell.Consistency), fmt.Sprintf("%.0f", cell.PerSecond),
			fmt.Sprintf("%.0f", cell.P50),
			fmt.Sprintf("%.0f", cell.P99), fmt.Sprintf("%.0f", 100*cell.Throttled), fmt.Sprint(cell.Errors),
		})
	}
	return []string{"members", "reads", "transactions/s", "p50 ms", "p99 ms", "throttled, %", "errors"}, rows
}

// Summary lists the fitted laws.
func (e *etcdMembers) Summary() string {
	var text strings.Builder
	for _, law := range e.Laws {
		fmt.Fprintf(&text, "%s: ", law.Consistency)
		if law.Fitted == nil {
			fmt.Fprintf(&text, "no law (%s)", law.Why)
		} else {
			fmt.Fprintf(&text, "lambda %.0f, sigma %.3f, kappa %.4f, R² %.2f",
				law.Fitted.Lambda, law.Fitted.Sigma, law.Fitted.Kappa, law.Fitted.RSquared)
			if law.Peak != nil {
				fmt.Fprintf(&text, ", peak at %.2f members", *law.Peak)
			}
		}
		fmt.Fprintf(&text, "; the study: %.0f, %.2f, %.3f, peak at %.2f\n",
			law.Published.Lambda, law.Published.Sigma, law.Published.Kappa, law.TheirPeak)
	}
	return text.String() + strings.Join(e.Settings, "; ") + "; seed " + fmt.Sprint(e.Seed) + ".\n" + e.Host.String()
}

// Table returns one row per stage and timer.
func (e *etcdPipeline) Table() ([]string, [][]string) {
	rows := [][]string{{"-", "the store alone", "", "", fmt.Sprintf("%.0f", e.Store)}}
	for _, cell := range e.Clusters {
		n := fmt.Sprint(cell.Members)
		rows = append(rows, []string{n, "all", "", "", fmt.Sprintf("%.0f", cell.PerSecond)})
		for _, s := range cell.Stages {
			rows = append(rows, []string{n, "CPU: " + string(s.Stage), fmt.Sprintf("%.1f", s.Micros),
				fmt.Sprintf("%.1f %%", 100*s.Part), ""})
		}
		for _, t := range cell.Timers {
			rows = append(rows, []string{
				n, "timer: " + t.Name, fmt.Sprintf("%.1f", 1000*t.MsPerPut), fmt.Sprintf("%.3f ms each", t.MeanMs),
				fmt.Sprintf("%.0f", t.PerSecond),
			})
		}
	}
	return []string{"members", "part", "µs/put", "", "events/s"}, rows
}

// Summary states the settings and the machine.
func (e *etcdPipeline) Summary() string {
	return fmt.Sprintf("CPU time and timers are of all members together. %s; seed %d.\n%v",
		strings.Join(e.Settings, "; "), e.Seed, e.Host)
}

// Table returns one row per cell.
func (e *etcdBatching) Table() ([]string, [][]string) {
	var rows [][]string
	for _, cell := range e.Cells {
		rows = append(rows, []string{
			cell.Series, fmt.Sprint(cell.Size), fmt.Sprintf("%g", cell.DelayMs), fmt.Sprint(cell.Clients),
			fmt.Sprintf("%.0f", cell.PerSecond),
			fmt.Sprintf("%.0f", cell.Txns), fmt.Sprintf("%.0f", 100*cell.Replaced), fmt.Sprintf("%.1f", cell.P50),
			fmt.Sprintf("%.1f", cell.P99), fmt.Sprint(cell.Errors),
		})
	}
	return []string{"series", "keys", "delay ms", "clients", "puts/s", "transactions/s", "replaced, %", "p50 ms",
		"p99 ms", "errors"}, rows
}

// Summary states the settings and the machine.
func (e *etcdBatching) Summary() string {
	return fmt.Sprintf("%s; seed %d.\n%v", strings.Join(e.Settings, "; "), e.Seed, e.Host)
}
