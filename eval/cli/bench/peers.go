package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/peer"
	"github.com/netcraq/netcraq/internal/cli"
)

// peersFlags are the flags of `netcraq bench peers`.
type peersFlags struct {
	names   []string
	op      string
	load    peer.Load
	options peer.Options
	seconds float64
	loss    float64
	peak    bool
}

func newBenchPeersCommand(out *benchOutput) *cobra.Command {
	flags := new(peersFlags)
	c := &cobra.Command{
		Use:   "peers [NAME...]",
		Short: "The same work for NetCRAQ, etcd, ZooKeeper, Redis and memcached",
		Long: `Starts one system after the other, each in private network namespaces with its data in memory, and measures it through
its Go client library. Systems: ` + strings.Join(peer.Names(), ", ") +
			` (default: all that are installed; scripts/peers.sh installs them).

Operations: get (linearizable if the system supports it), put, cas (compare-and-swap), lock (lock and unlock).

--peak finds the number of clients, and of outstanding requests per client, with the highest throughput. It also measures
load generators that are not client libraries: NetCRAQ's and memcached's in the kernel, and redis-benchmark. Their rows
are compared only with each other, for one request per packet and for several (pipelines of redis-benchmark, bundles of
NetCRAQ). etcd and ZooKeeper have no such generator. p99.9 is shown if there are at least 10,000 operations.`,
		Example: `  netcraq bench peers --op get --clients 4
  netcraq bench peers netcraq etcd --op put --loss 5
  netcraq bench peers --op get --peak --json`,
		ValidArgs: peer.Names(),
		RunE: func(c *cobra.Command, args []string) error {
			if i := slices.IndexFunc(args, func(name string) bool { return !peer.Known(name) }); i >= 0 {
				return cli.UsageError(fmt.Errorf("no system %q: want one of %s", args[i], strings.Join(peer.Names(), ", ")))
			}
			flags.names = args
			return runBench(c, out, func(ctx context.Context) (*peersReport, error) { return flags.run(ctx, out.progress()) })
		},
	}
	f := c.Flags()
	f.StringVar(&flags.op, "op", string(peer.Get), "operation: get, put, cas or lock")
	f.IntVar(&flags.load.Clients, "clients", 1, "concurrent clients, each with one outstanding request")
	f.IntVar(&flags.load.Pipeline, "pipeline", 1,
		"outstanding requests per client (get, put; not etcd and ZooKeeper, whose clients do not support it)")
	f.Float64Var(&flags.load.PerSecond, "rate", 0,
		"operations offered per second by all clients together; 0: closed loop")
	f.IntVar(&flags.load.Keys, "keys", 1000, "number of keys")
	f.Float64Var(&flags.load.Zipf, "zipf", 0, "exponent of the keys' popularity; 0: uniform")
	f.IntVar(&flags.load.ValueBytes, "value-bytes", 16, "length of every value")
	f.Uint64Var(&flags.load.Seed, "seed", 1, "seed of the keys drawn")
	f.Float64Var(&flags.seconds, "seconds", 3, "time under load for each, after a fifth of it to warm up")
	f.IntVar(&flags.options.Members, "members", 3, "servers of etcd and ZooKeeper, nodes of NetCRAQ")
	f.Float64Var(&flags.loss, "loss", 0, "loss of every link in percent, between clients and servers and among servers")
	f.BoolVar(&flags.options.Stale, "stale", false, "etcd and ZooKeeper: reads that are not linearizable")
	f.BoolVar(&flags.peak, "peak", false, "find the highest throughput of each system")
	return c
}

// complete converts the flags to a load and reports invalid ones.
func (f *peersFlags) complete() error {
	f.load.Op, f.load.Duration = peer.Op(f.op), time.Duration(f.seconds*float64(time.Second))
	f.options.Lossy = f.loss > 0
	switch {
	case f.seconds <= 0:
		return cli.UsageError(fmt.Errorf("--seconds: more than 0, not %v", f.seconds))
	case f.loss < 0 || f.loss > 50:
		return cli.UsageError(fmt.Errorf("--loss: 0 to 50 percent, not %v", f.loss))
	case f.peak && f.load.PerSecond > 0:
		return cli.UsageError(errors.New("--peak and --rate exclude each other"))
	}
	if err := errors.Join(f.load.Check(), f.options.Check()); err != nil {
		return cli.UsageError(err)
	}
	return nil
}

func (f *peersFlags) run(ctx context.Context, progress bench.Progress) (*peersReport, error) {
	if err := f.complete(); err != nil {
		return nil, err
	}
	if progress != nil {
		f.options.Progress = progress
	} else {
		progress = func(string) {}
	}
	names := f.names
	if len(names) == 0 {
		names = peer.Names()
	}
	report := &peersReport{Op: f.load.Op, Settings: make(map[string][]string), Host: bench.ThisHost()}
	for _, name := range names {
		progress(name)
		err := f.measure(ctx, name, report)
		var missing *peer.MissingError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &missing):
			report.Missing = append(report.Missing, missing.Error())
		case err != nil:
			return nil, err
		}
	}
	if len(report.Results) == 0 {
		return nil, errors.New(strings.Join(report.Missing, "\n"))
	}
	report.compare()
	return report, nil
}

// measure opens a system, measures it and closes it.
func (f *peersFlags) measure(ctx context.Context, name string, report *peersReport) (err error) {
	s, err := peer.Open(ctx, name, f.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	report.Settings[name] = s.Settings()
	if f.loss > 0 {
		if err := peer.Fill(ctx, s, f.load); err != nil {
			return err
		}
		if err := s.SetLoss(f.loss); err != nil {
			return err
		}
	}
	if f.peak {
		return report.peaks(ctx, s, f.load, f.loss == 0)
	}
	load := f.load
	if _, many := s.(peer.Many); !many {
		load.Pipeline = 1
	}
	r, err := peer.Run(ctx, s, load)
	if err != nil {
		return err
	}
	r.Loss = f.loss
	report.add(r)
	return nil
}

// pipelined is the pipeline that requests a load with several outstanding requests.
const pipelined = 2

// peaks finds the highest throughput of a system: with one outstanding request per client, with
// several if its client supports them, and with generators.
func (r *peersReport) peaks(ctx context.Context, s peer.Store, load peer.Load, generators bool) error {
	type measure func(context.Context, peer.Store, peer.Load) (peer.Result, error)
	runs := []measure{peer.Peak}
	if generators {
		runs = append(runs, peer.Fastest)
	}
	_, many := s.(peer.Many)
	many = many && (load.Op == peer.Get || load.Op == peer.Put)
	for _, run := range runs {
		for _, load.Pipeline = range []int{1, pipelined} {
			if load.Pipeline == pipelined && !many {
				continue
			}
			result, err := run(ctx, s, load)
			if errors.Is(err, peer.ErrNoGenerator) {
				continue
			}
			if err != nil {
				return err
			}
			r.add(result)
		}
	}
	return nil
}

// peersRow is the result of one system.
type peersRow struct {
	peer.Result
	How         string  `json:"how"`
	RatioToOurs float64 `json:"ratio_to_ours,omitempty"` // its throughput divided by NetCRAQ's under the same kind of load
}

// peersReport compares systems.
type peersReport struct {
	Op       peer.Op             `json:"op"`
	Results  []peersRow          `json:"results"`
	Settings map[string][]string `json:"settings"`
	Missing  []string            `json:"missing,omitempty"`
	Host     bench.Host          `json:"machine"`
}

func (r *peersReport) add(result peer.Result) {
	r.Results = append(r.Results, peersRow{Result: result, How: result.How()})
}

// compare computes the ratios to NetCRAQ. It compares client libraries with its client and
// generators with its generator, separately for one request and for several requests at a time.
func (r *peersReport) compare() {
	for i := range r.Results {
		row := &r.Results[i]
		for _, ours := range r.Results {
			if ours.System == peer.NetCRAQ && (ours.Generator == "") == (row.Generator == "") &&
				ours.Pipeline > 1 == (row.Pipeline > 1) {
				row.RatioToOurs = row.PerSecond / ours.PerSecond
			}
		}
	}
}

// Table returns one row per system and kind of load, rows of generators last.
func (r *peersReport) Table() ([]string, [][]string) {
	var clients, generators [][]string
	us := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f", v)
	}
	for _, x := range r.Results {
		ratio := "-"
		if x.RatioToOurs > 0 {
			ratio = fmt.Sprintf("%.3f", x.RatioToOurs)
		}
		tail := "-"
		if x.KnowsP999() {
			tail = us(x.P999us)
		}
		row := []string{x.System, x.How, cli.Grouped(uint64(x.PerSecond)), us(x.P50us), us(x.P99us), tail,
			fmt.Sprint(x.Errors), ratio}
		if x.Generator == "" {
			clients = append(clients, row)
		} else {
			generators = append(generators, row)
		}
	}
	return []string{"system", "with", string(r.Op) + "/s", "p50 µs", "p99 µs", "p99.9 µs", "errors", "of ours"},
		append(clients, generators...)
}

// Summary describes the systems' setup.
func (r *peersReport) Summary() string {
	var lines []string
	last := ""
	for _, x := range r.Results {
		if x.Generator != "" {
			continue
		}
		if x.System != last { // a system has a row for each kind of load
			lines = append(lines, x.System)
			for _, setting := range r.Settings[x.System] {
				lines = append(lines, "  "+setting)
			}
			last = x.System
		}
		if x.FirstError != "" {
			lines = append(lines, "  first error: "+x.FirstError)
		}
	}
	lines = append(lines, r.Missing...)
	if slices.ContainsFunc(r.Results, func(x peersRow) bool { return x.Pipeline > 1 && x.Generator == "" }) {
		lines = append(lines, "With several requests at once the times are those of a whole batch.")
	}
	if slices.ContainsFunc(r.Results, func(x peersRow) bool { return x.System == peer.NetCRAQ && x.Generator != "" }) {
		lines = append(lines,
			"NetCRAQ's load from the kernel goes to a chain of its own, as long as the one described above; "+
				"a clean read is answered by its head alone.")
	}
	return strings.Join(append(lines, r.Host.String()), "\n")
}
