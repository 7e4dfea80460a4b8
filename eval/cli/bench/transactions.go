package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/txn"
	"github.com/netcraq/netcraq/internal/cli"
)

// transactions are the results of one command.
type transactions struct {
	System string        `json:"system"`
	Plane  string        `json:"plane,omitempty"`
	Runs   []*txn.Result `json:"runs"`
	bench.Host
}

func newBenchTransactionsCommand(out *benchOutput) *cobra.Command {
	var (
		system     string
		contention []float64
		seconds    float64
		open       txn.OpenOptions
		o          txn.Options
	)
	c := &cobra.Command{
		Use:   "transactions",
		Short: "New-order transactions that take ten locks each, at several levels of contention",
		Long: `Runs new-order transactions as in TPC-C in a closed loop, with a system as the lock service. Each transaction acquires
exclusive locks of a hot item and of nine others, one after the other, executes its order and releases the locks. If another
client holds a lock, the transaction releases its locks, pauses and starts again. The contention index is one divided by
the number of hot items.

Every order is written to a ledger that only the locks protect. The command fails if two clients ever held a lock at once.

` + aboutSystems(),
		Example: `  netcraq bench transactions --contention 0.001,0.1,1 --clients 10
  netcraq bench transactions --system etcd --contention 1 --clients 100 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(contention) == 0 {
				return cli.UsageError(errors.New("--contention: want at least one index"))
			}
			o.Duration = time.Duration(seconds * float64(time.Second))
			return runTransactions(c, out, system, open, o, contention)
		},
	}
	f := c.Flags()
	f.StringVar(&system, "system", "netcraq", "the lock service: "+strings.Join(txn.Systems(), ", "))
	f.Float64SliceVar(&contention, "contention", []float64{0.001, 0.01, 0.1, 1},
		"contention indexes, measured one after the other")
	f.IntVar(&o.Clients, "clients", 10, "number of clients, each with one transaction at a time")
	f.Float64Var(&seconds, "seconds", 2, "time of each measurement, after a tenth of it to warm up")
	f.IntVar(&o.Items, "items", txn.DefaultItems, "number of items that are not hot")
	f.IntVar(&o.Locks, "locks", txn.DefaultLocks, "locks of a transaction, one of them of a hot item")
	f.IntVar(&o.AtOnce, "at-once", 1, "locks that a client requests and releases in one step")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the orders")
	f.StringVar(&open.Plane, "plane", "xdp", "data plane of systems that have one: xdp or soft")
	return c
}

func aboutSystems() string {
	var text strings.Builder
	text.WriteString("Systems:\n")
	for _, name := range txn.Systems() {
		fmt.Fprintf(&text, "  %-13s %s\n", name, txn.About(name))
	}
	return strings.TrimRight(text.String(), "\n")
}

func runTransactions(c *cobra.Command, out *benchOutput, name string, open txn.OpenOptions, o txn.Options,
	contention []float64) error {
	report := &transactions{System: name, Plane: open.Plane}
	err := runBench(c, out, func(ctx context.Context) (*transactions, error) {
		for _, index := range contention {
			o.Contention = index
			if err := o.Validate(); err != nil {
				return nil, transactionError(err)
			}
			open.Items = max(open.Items, o.AllItems())
		}
		if progress := out.progress(); progress != nil {
			open.Progress = func(step string) { progress(step) }
		}
		system, err := txn.Open(ctx, name, open)
		if err != nil {
			return nil, transactionError(err)
		}
		defer system.Close()
		report.Host = bench.ThisHost()
		for _, index := range contention {
			o.Contention = index
			r, err := txn.Run(ctx, system, o)
			if err != nil {
				return nil, transactionError(err)
			}
			report.Runs = append(report.Runs, r)
		}
		return report, nil
	})
	if err != nil {
		return err
	}
	var unsound []error
	for _, r := range report.Runs {
		unsound = append(unsound, r.Check())
	}
	return errors.Join(unsound...)
}

// transactionError turns a wrong option into a usage error.
func transactionError(err error) error {
	if errors.As(err, new(*txn.OptionError)) {
		return cli.UsageError(err)
	}
	return err
}

// Table returns one row per contention index.
func (t *transactions) Table() ([]string, [][]string) {
	var rows [][]string
	for _, r := range t.Runs {
		rows = append(rows, []string{
			fmt.Sprint(r.Contention), cli.Grouped(uint64(r.PerSecond)), fmt.Sprintf("%.1f", 100*r.AbortRate),
			fmt.Sprintf("%.0f", r.P50us),
			fmt.Sprintf("%.0f", r.P99us), fmt.Sprint(r.Violations), fmt.Sprint(r.LostUpdates),
		})
	}
	return []string{"contention", "transactions/s", "aborted, %", "p50 µs", "p99 µs", "violations", "lost updates"}, rows
}

// Summary describes the workload.
func (t *transactions) Summary() string {
	r := t.Runs[0]
	return fmt.Sprintf(
		"%s: %d clients, %d locks a transaction, %d at once; one of a hot item, the rest of %d others; seed %d.\n%s.\n%v",
		t.System, r.Clients, r.Locks, r.AtOnce, r.Items, r.Seed, strings.Join(r.Settings, "; "), t.Host)
}
