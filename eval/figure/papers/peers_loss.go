package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
)

// peersLossPercent is the loss of every link.
const peersLossPercent = 5

func peersLoss() *figure.Spec {
	var names []string
	for _, op := range peer.Ops() {
		names = append(names, string(op))
	}
	return &figure.Spec{
		Name: "peers-loss", Title: "All operations of all systems while every link loses 5 %",
		Source: figure.Source{
			Paper: "no figure of the papers",
			Reports: "NetChain's paper shows ZooKeeper's throughput under loss; etcd, Redis and memcached are not " +
				"in the papers. The figure netchain-loss has other rates of loss.",
		},
		X: figure.Axis{Label: "operation", Names: names},
		Panels: []figure.Panel{
			{Title: "throughput", Metric: opsPerS, Bars: true, Log: true, Label: "operations/s", Unit: "operations/s"},
			{Title: "p99", Metric: p99us, Bars: true, Log: true, Label: "µs", Unit: "µs"},
		},
		Series: peerSeries(),
		Needs:  figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{
			Xs:     figure.Counting(len(names)),
			Rounds: 1,
			Window: 800 * time.Millisecond,
			Budget: 35 * time.Second,
		},
		Full: figure.Plan{
			Xs:     figure.Counting(len(names)),
			Rounds: 3,
			Window: 3 * time.Second,
			Budget: 180 * time.Second,
		},
		Open: openPeersLoss, Results: peersLossResults, Notes: peersLossNotes,
	}
}

func openPeersLoss(_ context.Context, env figure.Env) (figure.Harness, error) {
	stores := openPeers(env, peer.Options{Lossy: true})
	r := &harness{close: stores.all}
	r.note(
		[]string{
			fmt.Sprintf(
				"%d clients with one operation at a time, 1,000 keys, values of %d bytes; every link "+
					"loses %d %% of its packets at random, in both directions, also between servers",
				lossClients, peerValueBytes, peersLossPercent),
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		s, err := stores.get(ctx, cell.Series)
		if err != nil {
			return figure.Sample{}, err
		}
		r.noteSettings(cell.Series, s)
		load := peer.Load{
			Op:         peer.Ops()[int(cell.X)],
			Clients:    lossClients,
			ValueBytes: peerValueBytes,
			Duration:   window,
			Timeout:    peerPatience,
			Seed:       1,
		}
		if err := peer.Fill(ctx, s, load); err != nil {
			return figure.Sample{}, err
		}
		if err := s.SetLoss(peersLossPercent); err != nil {
			return figure.Sample{}, err
		}
		found, err := peer.Run(ctx, s, load)
		if err != nil {
			stores.drop(cell.Series)
			return figure.Sample{}, err
		}
		v := map[string]float64{
			opsPerS:  found.PerSecond,
			p50us:    found.P50us,
			p99us:    found.P99us,
			"errors": float64(found.Errors),
		}
		addP999(v, p999us, found)
		return values(v), s.SetLoss(0)
	}
	return r, nil
}

func peersLossResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Spec.Full.Xs {
		for _, other := range otherPeers {
			for _, m := range []struct{ metric, text, unit string }{
				{opsPerS, "%s at 5 %% loss, against %s", "operations/s"},
				{p99us, "p99 of a %s at 5 %% loss, against %s", "µs"},
			} {
				all = append(all, figure.Result{
					Metric: fmt.Sprintf(m.text, o.Spec.X.Place(x), other),
					Unit:   m.unit,
					Values: figure.Values{
						figure.Ours: o.Median(ours, x, m.metric),
						figure.Peer: o.Median(other, x, m.metric),
					},
				})
			}
		}
	}
	return all
}

func peersLossNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		for _, other := range otherPeers {
			if ratio := figure.Ratio(o.Median(ours, x, opsPerS), o.Median(other, x, opsPerS)); ratio != nil &&
				*ratio < 1 {
				notes = append(
					notes,
					say(figure.Remark, "peers-loss-faster", facts{
						"Place": o.Spec.X.Place(x),
						"Other": other,
						"Times": 1 / *ratio,
					}),
				)
			}
		}
	}
	return append(notes, say(figure.Remark, "peers-loss-retries", nil))
}
