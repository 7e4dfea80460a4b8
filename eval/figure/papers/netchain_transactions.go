package papers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/eval/txn"
)

// txnSystems are the lock services by the name of their series.
var txnSystems = map[string]string{
	"NetCRAQ": "netcraq", "NetChain": "netchain", "etcd": peer.Etcd, "ZooKeeper": peer.ZooKeeper,
}

// txnPlane is the data plane of both chains.
const txnPlane = "xdp"

// txnClients work in a closed loop.
const txnClients = 10

func netchainTransactions() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-transactions", Title: "New-order transactions with locks, by contention",
		Source: figure.Source{
			Paper: "NetChain (NSDI'18), figure 11, as summarised",
			Reports: "With NetChain as the lock service, TPC-C new-order transactions are orders of magnitude " +
				"faster than with ZooKeeper, " +
				"at every level of contention; contention costs throughput.",
		},
		X: figure.Axis{Label: "contention index (1 / number of hot items)", Log: true},
		Panels: []figure.Panel{
			{Title: "throughput", Metric: txnPerS, Label: "transactions/s", Unit: "transactions/s", Log: true},
			{Title: "p99 of a transaction", Metric: "p99_us", Label: "µs", Unit: "µs", Log: true},
		},
		Series: []figure.Series{
			{Name: "NetCRAQ", Role: plot.Ours},
			{Name: "NetChain", Role: plot.NetChain},
			{Name: "etcd", Role: plot.Peer},
			{Name: "ZooKeeper", Role: plot.Peer, Variant: 1},
		},
		Needs: figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{Xs: []float64{0.001, 0.1, 1}, Rounds: 1, Window: time.Second, Budget: 30 * time.Second},
		Full: figure.Plan{
			Xs:     []float64{0.001, 0.01, 0.1, 1},
			Rounds: 5,
			Window: 2 * time.Second,
			Budget: 180 * time.Second,
		},
		Open: openTransactions, Results: transactionResults, Notes: transactionNotes,
	}
}

func openTransactions(_ context.Context, env figure.Env) (figure.Harness, error) {
	items := 0
	for _, x := range env.Plan.Xs {
		o := txn.Options{Contention: x, Clients: txnClients, Duration: time.Second}
		if err := o.Validate(); err != nil {
			return nil, err
		}
		items = max(items, o.AllItems())
	}
	systems := &keep[string, txn.System]{
		most: len(txnSystems),
		open: func(ctx context.Context, name string) (txn.System, error) {
			return txn.Open(ctx, name, txn.OpenOptions{Items: items, Plane: txnPlane, Progress: env.Say})
		},
		close: func(s txn.System) { _ = s.Close() },
	}
	r := &harness{close: systems.all}
	r.note(
		[]string{
			fmt.Sprintf(
				"%d clients in a closed loop; each takes ten locks in order, one of them of a hot item. "+
					"If a lock is held, the client releases its locks and retries after a pause",
				txnClients),
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		name := txnSystems[cell.Series]
		system, err := systems.get(ctx, name)
		if err != nil {
			return figure.Sample{}, peerError(err)
		}
		for _, s := range system.Settings() {
			r.note([]string{cell.Series + ": " + s})
		}
		res, err := txn.Run(ctx, system,
			txn.Options{Contention: cell.X, Clients: txnClients, Duration: window, Seed: 1})
		if err != nil {
			systems.drop(name)
			return figure.Sample{}, err
		}
		if err := res.Check(); err != nil {
			return figure.Sample{}, err
		}
		return values(
			map[string]float64{
				txnPerS:      res.PerSecond,
				"p50_us":     res.P50us,
				"p99_us":     res.P99us,
				"abort_rate": res.AbortRate,
			},
		), nil
	}
	return r, nil
}

// peerError explains an error of a system that is not installed.
func peerError(err error) error {
	if missing := new(peer.MissingError); errors.As(err, &missing) {
		return &figure.Unable{Why: missing.Error()}
	}
	return err
}

func transactionResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		ours, chain := o.Median("NetCRAQ", x, txnPerS), o.Median("NetChain", x, txnPerS)
		line := func(peer string) figure.Result {
			return figure.Result{
				Metric: fmt.Sprintf("transactions/s at contention %g, beside %s", x, peer),
				Unit:   "transactions/s",
				Values: figure.Values{figure.Ours: ours, figure.Peer: o.Median(peer, x, txnPerS)},
			}
		}
		against := figure.Result{
			Metric: fmt.Sprintf("transactions/s at contention %g, against NetChain", x),
			Unit:   "transactions/s",
			Values: figure.Values{figure.NetChain: chain, figure.Ours: ours},
			Mark:   figure.AtLeast(1, "NetChain", ours, chain),
		}
		all = append(all, against, line("etcd"), line("ZooKeeper"))
	}
	return all
}

func transactionNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, other := range []string{"ZooKeeper", "etcd"} {
		for _, series := range []string{"NetChain", "NetCRAQ"} {
			if least := figure.Least(o.Ratios(series, other, txnPerS)); least != nil {
				notes = append(notes, say(verdict(least.Y >= 10), "transactions-times", facts{
					"Series":     series,
					"Times":      least.Y,
					"Other":      other,
					"Contention": least.X,
				}))
			}
		}
	}
	if points := o.Medians("NetChain", txnPerS); len(points) > 1 {
		first, last := points[0], points[len(points)-1]
		notes = append(notes, say(verdict(last.Y < first.Y), "transactions-change", facts{
			"First":   first.X,
			"Last":    last.X,
			"Percent": 100 * (last.Y/first.Y - 1),
		}))
	}
	if least := figure.Least(o.Ratios("NetCRAQ", "NetChain", txnPerS)); least != nil && least.Y < 1 {
		notes = append(notes, say(figure.Remark, "transactions-netchain", facts{"Times": 1 / least.Y}))
	}
	return append(
		notes,
		say(figure.Remark, "transactions-checked", nil),
		say(figure.Remark, "transactions-machines", nil),
	)
}

// number is a number for a sentence.
func number(v float64) string { return plot.Short(v) }
