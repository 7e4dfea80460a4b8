package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
)

// zipfExponent is that of the hot keys.
const zipfExponent = 0.99

// zipfCases are the places of the axis.
var zipfCases = []struct {
	place, text string // below the bars, where there is little room, and in lines of the summary
	op          peer.Op
	zipf        float64
}{
	{"get, alike", "get, all alike", peer.Get, 0}, {"get, Zipf", "get, Zipf", peer.Get, zipfExponent},
	{"put, alike", "put, all alike", peer.Put, 0}, {"put, Zipf", "put, Zipf", peer.Put, zipfExponent},
	{"cas, own", "cas, own keys", peer.CAS, 0}, {"cas, Zipf", "cas, Zipf", peer.CAS, zipfExponent},
	{"lock, alike", "lock, all alike", peer.LockUnlock, 0}, {"lock, Zipf", "lock, Zipf", peer.LockUnlock, zipfExponent},
}

func peersZipf() *figure.Spec {
	var names []string
	for _, c := range zipfCases {
		names = append(names, c.place)
	}
	return &figure.Spec{
		Name: "peers-zipf", Title: "Hot keys: Zipf 0.99 beside keys that are all alike",
		Source: figure.Source{
			Paper: "no figure of the papers",
			Reports: "The Kubernetes paper sees 55 % of the reads on 25 keys; NetChain is meant for small hot keys " +
				"in front of a store for the rest.",
		},
		X: figure.Axis{Label: "operation and keys: all alike, each client's own, by Zipf's law", Names: names},
		Panels: []figure.Panel{
			{
				Title:  "throughput, many clients",
				Metric: opsPerS,
				Bars:   true,
				Log:    true,
				Label:  "operations/s",
				Unit:   "operations/s",
			},
			{Title: "p99 with many clients", Metric: "loaded_p99_us", Bars: true, Log: true, Label: "µs", Unit: "µs"},
		},
		Rows:   2,
		Series: peerSeries(),
		Needs:  figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{
			Xs:     figure.Counting(len(names)),
			Rounds: 1,
			Window: 375 * time.Millisecond,
			Budget: 40 * time.Second,
		},
		Full: figure.Plan{
			Xs:     figure.Counting(len(names)),
			Rounds: 3,
			Window: 1500 * time.Millisecond,
			Budget: 230 * time.Second,
		},
		Open: openPeersZipf, Results: peersZipfResults, Notes: peersZipfNotes,
	}
}

func openPeersZipf(_ context.Context, env figure.Env) (figure.Harness, error) {
	stores := openPeers(env, peer.Options{})
	r := &harness{close: stores.all}
	r.note(
		[]string{
			fmt.Sprintf(
				"1,000 keys, values of %d bytes; %d clients. A compare-and-swap is retried until it "+
					"succeeds. A client that finds a lock held tries another, drawn from the same "+
					"distribution",
				peerValueBytes, peerClients),
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		s, err := stores.get(ctx, cell.Series)
		if err != nil {
			return figure.Sample{}, err
		}
		r.noteSettings(cell.Series, s)
		c := zipfCases[int(cell.X)]
		found, err := peer.Run(ctx, s, busy(s, c.op, c.zipf, window))
		if err != nil {
			return figure.Sample{}, err
		}
		v := map[string]float64{
			opsPerS:         found.PerSecond,
			"loaded_p50_us": found.P50us,
			"loaded_p99_us": found.P99us,
			"errors":        float64(found.Errors),
			"conflicts":     float64(found.Conflicts),
		}
		addP999(v, "loaded_p999_us", found)
		return values(v), nil
	}
	return r, nil
}

func peersZipfResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Spec.Full.Xs {
		for _, other := range otherPeers {
			all = append(all, figure.Result{
				Metric: fmt.Sprintf("%s, against %s", zipfCases[int(x)].text, other),
				Unit:   "operations/s",
				Values: figure.Values{
					figure.Ours: o.Median("NetCRAQ", x, opsPerS),
					figure.Peer: o.Median(other, x, opsPerS),
				},
			})
		}
	}
	return all
}

func peersZipfNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, s := range o.Spec.Series {
		for x := 0.0; int(x)+1 < len(zipfCases); x += 2 {
			ratio := figure.Ratio(o.Median(s.Name, x+1, opsPerS), o.Median(s.Name, x, opsPerS))
			if ratio != nil && (*ratio < 0.8 || *ratio > 1.25) {
				notes = append(
					notes,
					say(figure.Remark, "zipf-change", facts{
						"Series":  s.Name,
						"Op":      zipfCases[int(x)].op,
						"Percent": 100 * (*ratio - 1),
					}),
				)
			}
		}
	}
	if len(notes) == 0 {
		notes = append(notes,
			say(figure.Remark, "zipf-no-change", nil))
	}
	return append(notes, say(figure.Remark, "zipf-orders", nil))
}
