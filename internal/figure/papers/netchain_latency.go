package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/internal/bench"
	"github.com/netcraq/netcraq/internal/figure"
)

// Of reads and writes.
const (
	readP50us  = "read_p50_us"
	writeP50us = "write_p50_us"
)

func netchainLatency() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-latency", Title: "Time of reads and writes by throughput",
		Source: figure.Source{Paper: "NetChain (NSDI'18), figure 9e, as summarised", Reports: "NetChain: 9.7 µs for reads and writes alike, up to all that its clients can send. ZooKeeper: 170 µs for reads and 2,350 µs for writes at low load; it saturates at 230,000 reads/s and 27,000 writes/s."},
		X:      figure.Axis{Label: "requests/s offered", Log: true},
		Panels: []figure.Panel{
			{Title: "median of a read", Metric: readP50us, Label: "µs", Unit: "µs", Log: true},
			{Title: "median of a write", Metric: writeP50us, Label: "µs", Unit: "µs", Log: true},
		},
		Series: compared(nil),
		Needs:  figure.Needs{Root: true},
		Quick:  figure.Plan{Xs: []float64{10_000, 100_000}, Rounds: 2, Turn: 300 * time.Millisecond, Budget: 15 * time.Second},
		Full:   figure.Plan{Xs: []float64{1000, 10_000, 50_000, 100_000, 200_000, 400_000}, Rounds: 9, Turn: 600 * time.Millisecond, Budget: 140 * time.Second},
		Open:   openNetchainLatency, Results: netchainLatencyResults, Notes: netchainLatencyNotes,
	}
}

func openNetchainLatency(_ context.Context, env figure.Env) (figure.Rig, error) {
	lines := newLines(env)
	r := &rig{close: lines.all, settings: lineSettings("3")}
	r.note([]string{"the client is at the head; times are from the moment a request's packet is made until its answer is judged, both in the kernel"})
	r.measure = func(ctx context.Context, cell figure.Cell, turn time.Duration) (figure.Sample, error) {
		key := lineKey{protocol: protocols[cell.Series], nodes: netChainChain, keys: lineKeys, valueBytes: lineValueBytes}
		line, err := lines.get(ctx, key)
		if err != nil {
			return figure.Sample{}, err
		}
		v := make(map[string]float64)
		for _, share := range []float64{0, 1} {
			found, err := line.Latency(ctx, bench.Work{WriteShare: share}, cell.X, turn/2)
			if err != nil {
				lines.drop(key)
				return figure.Sample{}, err
			}
			if share == 0 {
				v[readP50us], v["read_p99_us"], v[readsPerS], v["reads_lost_percent"] = found.Read.P50us, found.Read.P99us, found.ReadsPerS, percent(found.Lost, found.Sent)
			} else {
				v[writeP50us], v["write_p99_us"], v[writesPerS], v["writes_lost_percent"] = found.Write.P50us, found.Write.P99us, found.WritesPerS, percent(found.Lost, found.Sent)
			}
		}
		return values(v), nil
	}
	return r, nil
}

// paperTime is what NetChain's paper measured, in microseconds, for reads and writes.
const paperTime = 9.7

func netchainLatencyResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, m := range []struct{ metric, text string }{{readP50us, "read"}, {writeP50us, "write"}} {
			r := versus(o, m.metric, fmt.Sprintf("median time of a %s at %s requests/s", m.text, number(x)), "µs", x, figure.AtMost(1, "NetChain", o.Median(ours, x, m.metric), o.Median(netChain, x, m.metric)))
			r.Paper = figure.Value(paperTime)
			all = append(all, r)
		}
	}
	return all
}

func netchainLatencyNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	first, last := o.Xs[0], o.Xs[len(o.Xs)-1]
	if read, write := o.Median(netChain, first, readP50us), o.Median(netChain, first, writeP50us); read != nil && write != nil {
		ratio := *write / *read
		notes = append(notes, say(verdict(ratio > 0.7 && ratio < 1.4), "NetChain: %s µs for a read, %s µs for a write at %s requests/s (the paper: 9.7 µs for both).", number(*read), number(*write), number(first)))
	}
	for _, series := range []string{netChain, ours} {
		if growth := figure.Ratio(o.Median(series, last, readP50us), o.Median(series, first, readP50us)); growth != nil {
			notes = append(notes, say(verdict(*growth < 1.5), "%s: at %s reads/s a read takes %s times as long as at %s (the paper, of NetChain: as long).", series, number(last), number(*growth), number(first)))
		}
	}
	if most := figure.Most(o.Ratios(ours, netChain, writeP50us)); most != nil && most.Y > 1 {
		notes = append(notes, say(figure.Remark, "NetCRAQ's writes take up to %s times as long as NetChain's: every node looks up the client's session and records the result there, so that a repeated write is recognised, and compares epochs; acknowledgements to the members leave the tail before the next request is worked on, as all nodes share one CPU.", number(most.Y)))
	}
	return append(explain(notes, "Why: the paper's clients are servers with a network card, which is most of its 9.7 µs; its switches are never busy. Here clients cost nothing and the nodes are software: times are those of passing packets from one to the next, and grow when the CPU has more to do than it can."),
		say(figure.Remark, "At 100,000 requests/s and more requests are sent several at a time, and wait for each other."))
}
