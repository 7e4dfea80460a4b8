package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/etcdstudy"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// batchings are how puts are put together, by the name of the series.
var batchings = map[string]etcdstudy.Batch{
	"uniform keys":                         {},
	"hot keys":                             {Zipf: etcdstudy.ZipfExponent},
	"hot keys, overwrites merged":          {Zipf: etcdstudy.ZipfExponent, Merge: true},
	"hot keys, merged, held back to 20 ms": {Zipf: etcdstudy.ZipfExponent, Merge: true, Delay: 20 * time.Millisecond},
}

// batchConns are the connections, and so the batchers, of all clients.
const batchConns = 10

func etcdBatching() *figure.Spec {
	return &figure.Spec{
		Name: "etcd-batching", Title: "etcd: what batching gains",
		Source: figure.Source{
			Paper: "Study of etcd's scalability, section 5.3 (batching)",
			Reports: "Proposes to put requests together in the API or in Raft, to merge overwrites, and to delay " +
				"writes that a later one may replace. " +
				"It was not built, and there are no figures.",
		},
		X: figure.Axis{Label: "puts of one transaction, at most", Log: true},
		Panels: []figure.Panel{
			{Title: "throughput", Metric: putsPerS, Label: "puts/s", Unit: "puts/s"},
			{Title: "p99 of a put", Metric: "p99_ms", Label: "ms", Unit: "ms", Log: true},
		},
		Series: []figure.Series{
			{Name: "uniform keys", Role: plot.Peer},
			{Name: "hot keys", Role: plot.Peer, Variant: 1},
			{
				Name:    "hot keys, overwrites merged",
				Role:    plot.Peer,
				Variant: 2,
			},
			{Name: "hot keys, merged, held back to 20 ms", Role: plot.Peer, Variant: 3},
		},
		Needs: figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{Xs: []float64{1, 4, 16}, Rounds: 1, Window: time.Second, Budget: 25 * time.Second},
		Full: figure.Plan{
			Xs:     numbers(etcdstudy.BatchSizes),
			Rounds: 3,
			Window: 2 * time.Second,
			Budget: 180 * time.Second,
		},
		Open: openEtcdBatching, Results: etcdBatchingResults, Notes: etcdBatchingNotes,
	}
}

func openEtcdBatching(context.Context, figure.Env) (figure.Harness, error) {
	clusters := &keep[int, *etcdstudy.Harness]{
		most: 1,
		open: func(ctx context.Context, members int) (*etcdstudy.Harness, error) {
			return etcdstudy.OpenHarness(ctx, etcdstudy.HarnessOptions{Members: members, Conns: batchConns})
		},
		close: func(r *etcdstudy.Harness) { _ = r.Close() },
	} // of processes that end with this one
	r := &harness{close: clusters.all}
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		const members = 3
		cluster, err := clusters.get(ctx, members)
		if err != nil {
			return figure.Sample{}, etcdError(err)
		}
		r.note(cluster.Settings)
		batch := batchings[cell.Series]
		batch.Size = int(cell.X)
		c, err := cluster.PutBatches(ctx, batch, etcdstudy.Load{Duration: window, Seed: 1})
		if err != nil {
			clusters.drop(members)
			return figure.Sample{}, err
		}
		return values(
			map[string]float64{
				putsPerS:             c.PerSecond,
				"p50_ms":             c.P50,
				"p99_ms":             c.P99,
				"transactions_per_s": c.Txns,
				"sent_per_s":         c.Sent,
				"replaced":           c.Replaced,
				"errors":             float64(c.Errors),
				"client_cpus":        c.ClientCPUs,
			},
		), nil
	}
	return r, nil
}

func etcdBatchingResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, s := range o.Spec.Series {
		points := o.Medians(s.Name, putsPerS)
		if most := figure.Most(points); most != nil && points[0].X == 1 {
			all = append(all, figure.Result{
				Metric: fmt.Sprintf("puts at the best length of a batch against no batching, %s", s.Name),
				Unit:   "×",
				Values: figure.Values{figure.Peer: figure.Value(most.Y / points[0].Y)},
			})
		}
	}
	return all
}

func etcdBatchingNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, s := range o.Spec.Series {
		points := o.Medians(s.Name, putsPerS)
		most := figure.Most(points)
		if most == nil || points[0].X != 1 {
			continue
		}
		gain := most.Y / points[0].Y
		notes = append(notes, say(verdict(gain > 1.1), "batching-gain", facts{
			"Series": s.Name,
			"Length": most.X,
			"Times":  gain,
		}))
	}
	last := o.Xs[len(o.Xs)-1]
	if merged := figure.Ratio(
		o.Median("hot keys, overwrites merged", last, putsPerS),
		o.Median("hot keys", last, putsPerS)); merged != nil {
		notes = append(notes, say(verdict(*merged > 1.05), "batching-merges", facts{
			"Percent":  100 * (*merged - 1),
			"Length":   last,
			"Replaced": 100 * value(o.Median("hot keys, overwrites merged", last, "replaced")),
		}))
	}
	if dally := figure.Ratio(
		o.Median("hot keys, merged, held back to 20 ms", last, putsPerS),
		o.Median("hot keys, overwrites merged", last, putsPerS)); dally != nil {
		notes = append(notes, say(verdict(*dally > 1.05), "batching-holds-back", facts{
			"Percent": 100 * (*dally - 1),
			"Before":  value(o.Median("hot keys, overwrites merged", last, "p99_ms")),
			"After":   value(o.Median("hot keys, merged, held back to 20 ms", last, "p99_ms")),
		}))
	}
	return append(notes, say(figure.Remark, "batching-client", nil))
}

// value is a number, or 0 if it is not there.
func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
