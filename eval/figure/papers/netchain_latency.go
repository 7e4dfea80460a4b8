package papers

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

// Of reads and writes.
const (
	readP50us  = "read_p50_us"
	readP99us  = "read_p99_us"
	writeP50us = "write_p50_us"
	writeP99us = "write_p99_us"
)

// Reads and writes are measured one after the other.
var (
	readAlone = timed{
		text:       "read",
		p50:        readP50us,
		p99:        readP99us,
		unanswered: "reads_unanswered_percent",
		lighter:    sentence("lighter-paper", nil),
	}
	writeAlone = timed{
		text:       "write",
		p50:        writeP50us,
		p99:        writeP99us,
		unanswered: "writes_unanswered_percent",
		lighter:    sentence("lighter-paper-writes", nil),
	}
)

func netchainLatency() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-latency", Title: "Time of reads and writes by throughput",
		Source: figure.Source{
			Paper: "NetChain (NSDI'18), figure 9e, as summarised",
			Reports: "NetChain: 9.7 µs for reads and writes, up to the clients' maximum rate. ZooKeeper: 170 µs " +
				"for reads and 2,350 µs for writes at low load; it saturates at 230,000 reads/s and " +
				"27,000 writes/s.",
		},
		X: figure.Axis{Label: "requests/s offered", Log: true},
		Panels: []figure.Panel{
			{
				Title:  "median of a read",
				Metric: readP50us,
				Label:  "µs",
				Unit:   "µs",
				Log:    true,
				Omit:   readAlone.overloaded,
			},
			{
				Title:  "median of a write",
				Metric: writeP50us,
				Label:  "µs",
				Unit:   "µs",
				Log:    true,
				Omit:   writeAlone.overloaded,
			},
			{Title: "p99 of a read", Metric: readP99us, Label: "µs", Unit: "µs", Log: true, Omit: readAlone.overloaded},
			{
				Title:  "p99 of a write",
				Metric: writeP99us,
				Label:  "µs",
				Unit:   "µs",
				Log:    true,
				Omit:   writeAlone.overloaded,
			},
		},
		Rows:   2,
		Series: compared(nil),
		Needs:  figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{10_000, 100_000},
			Rounds: 2,
			Window: 300 * time.Millisecond,
			Budget: 15 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{1000, 10_000, 50_000, 100_000, 200_000, 400_000},
			Rounds: 9,
			Window: 600 * time.Millisecond,
			Budget: 140 * time.Second,
		},
		Open: openNetchainLatency, Results: netchainLatencyResults, Notes: netchainLatencyNotes,
	}
}

func openNetchainLatency(_ context.Context, env figure.Env) (figure.Harness, error) {
	lines := newLines(env)
	r := &harness{close: lines.all, settings: lineSettings("3")}
	r.note(
		[]string{
			"the client is at the head; a time begins when a request's packet is made and ends when its " +
				"answer is checked, both in the kernel",
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		key := lineKey{
			protocol:   protocols[cell.Series],
			nodes:      netChainChain,
			keys:       lineKeys,
			valueBytes: lineValueBytes,
		}
		line, err := lines.get(ctx, key)
		if err != nil {
			return figure.Sample{}, err
		}
		v := make(map[string]float64)
		for _, share := range []float64{0, 1} {
			found, err := line.Latency(ctx, bench.Work{WriteShare: share}, cell.X, window/2)
			if err != nil {
				lines.drop(key)
				return figure.Sample{}, err
			}
			if share == 0 {
				v[readsPerS] = found.ReadsPerS
				readAlone.add(v, found.Read.P50us, found.Read.P99us, unansweredPercent(found))
			} else {
				v[writesPerS] = found.WritesPerS
				writeAlone.add(v, found.Write.P50us, found.Write.P99us, unansweredPercent(found))
			}
		}
		return values(v), nil
	}
	return r, nil
}

// paperTime is the measurement of NetChain's paper, in microseconds, for reads and writes.
const paperTime = 9.7

func netchainLatencyResults(o *figure.Outcome) []figure.Result {
	return append(readAlone.results(o, paperTime), writeAlone.results(o, paperTime)...)
}

func netchainLatencyNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	first, last := o.Xs[0], o.Xs[len(o.Xs)-1]
	if read, write := readAlone.at(o, netChain, first, readP50us),
		writeAlone.at(o, netChain, first, writeP50us); read != nil &&
		write != nil {
		ratio := *write / *read
		notes = append(notes, say(verdict(ratio > 0.7 && ratio < 1.4), "latency-netchain", facts{
			"Read":  *read,
			"Write": *write,
			"Rate":  first,
		}))
	}
	for _, series := range []string{netChain, ours} {
		if growth := figure.Ratio(readAlone.at(o, series, last, readP50us),
			readAlone.at(o, series, first, readP50us)); growth != nil {
			notes = append(notes, say(figure.Remark, "latency-growth", facts{
				"Series": series,
				"Rate":   last,
				"Times":  *growth,
				"First":  first,
			}))
		}
	}
	if most := figure.Most(writeAlone.ratios(o, ours, netChain, writeP50us)); most != nil && most.Y > 1 {
		notes = append(notes, say(figure.Remark, "latency-writes", facts{"Times": most.Y}))
	}
	notes = append(append(notes, readAlone.notes(o)...), writeAlone.notes(o)...)
	return append(
		explain(notes, say(figure.Remark, "why-latency-netchain", nil)),
		say(figure.Remark, "sent-together", nil),
	)
}
