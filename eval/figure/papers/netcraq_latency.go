package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

// Of reads at one node alone.
const (
	headP50us = "head_p50_us"
	tailP50us = "tail_p50_us"
)

// readTime is the time of a read over all nodes asked. Of their shares of unanswered reads, the
// largest counts.
var readTime = timed{
	text:       "read",
	p50:        p50us,
	p99:        p99us,
	unanswered: "unanswered_percent",
	lighter:    sentence("lighter-paper", nil),
}

func netcraqLatency() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-latency", Title: "Time of a read by offered load",
		Source: figure.Source{
			Paper: netcraqPapers + ", figure 4",
			Reports: "Over all nodes of a chain of 4. NetCRAQ's time hardly grows with the load. It is two orders " +
				"of magnitude below NetChain's at 5,000 and 10,000 reads/s, three at 20,000. NetChain's " +
				"varies with the distance from the tail.",
		},
		X: figure.Axis{Label: "reads/s offered", Log: true},
		Panels: []figure.Panel{
			{
				Title:  "median, mean of all nodes asked",
				Metric: p50us,
				Label:  "µs",
				Unit:   "µs",
				Log:    true,
				Omit:   readTime.overloaded,
			},
			{
				Title:  "p99, mean of all nodes asked",
				Metric: p99us,
				Label:  "µs",
				Unit:   "µs",
				Log:    true,
				Omit:   readTime.overloaded,
			},
		},
		Series: compared(nil),
		Needs:  figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{5000, 20_000, 100_000},
			Rounds: 2,
			Window: 400 * time.Millisecond,
			Budget: 20 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{1000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000},
			Rounds: 9,
			Window: 600 * time.Millisecond,
			Budget: 130 * time.Second,
		},
		Open: openNetcraqLatency, Results: latencyResults, Notes: latencyNotes,
	}
}

func openNetcraqLatency(_ context.Context, env figure.Env) (figure.Harness, error) {
	lines := newLines(env)
	r := &harness{close: lines.all, settings: lineSettings("4")}
	r.note(
		[]string{
			"a client asks the nodes one after the other, each for a quarter of the time; a time begins " +
				"when a request's packet is made and ends when its answer is checked, both in the kernel",
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		key := lineKey{protocol: protocols[cell.Series], nodes: paperChain, keys: lineKeys, valueBytes: lineValueBytes}
		line, err := lines.get(ctx, key)
		if err != nil {
			return figure.Sample{}, err
		}
		v := make(map[string]float64)
		var p50, p99, unanswered float64
		for target := range paperChain {
			found, err := line.Latency(ctx, bench.Work{Target: target}, cell.X, window/paperChain)
			if err != nil {
				lines.drop(key)
				return figure.Sample{}, err
			}
			p50, p99 = p50+found.Read.P50us/paperChain, p99+found.Read.P99us/paperChain
			unanswered = max(unanswered, unansweredPercent(found))
			switch target {
			case 0:
				v[headP50us] = found.Read.P50us
			case paperChain - 1:
				v[tailP50us] = found.Read.P50us
			}
		}
		readTime.add(v, p50, p99, unanswered)
		return values(v), nil
	}
	return r, nil
}

// paperLatency are the ratios to NetChain that are reported, by load.
var paperLatency = map[float64]float64{5000: 0.01, 10_000: 0.01, 20_000: 0.001}

func latencyResults(o *figure.Outcome) []figure.Result {
	all := readTime.results(o, 0)
	for _, x := range o.Xs {
		if paper, ok := paperLatency[x]; ok {
			chain := readTime.at(o, netChain, x, p50us)
			all = append(all, figure.Result{
				Metric: fmt.Sprintf("median time at %s reads/s, against NetChain", number(x)),
				Unit:   "× NetChain",
				Values: figure.Values{
					figure.Paper:        &paper,
					figure.NetChain:     figure.Ratio(chain, chain),
					figure.NetCRAQPaper: figure.Ratio(readTime.at(o, netcraqPaper, x, p50us), chain),
					figure.Ours:         figure.Ratio(readTime.at(o, ours, x, p50us), chain),
				},
			})
		}
	}
	return all
}

func latencyNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		ratio := figure.Ratio(readTime.at(o, ours, x, p50us), readTime.at(o, netChain, x, p50us))
		paper, ok := paperLatency[x]
		if !ok || ratio == nil {
			continue
		}
		notes = append(notes, say(verdict(*ratio <= paper*3), "latency-share", facts{
			"Rate":  x,
			"Share": *ratio,
			"Paper": paper,
		}))
	}
	if points := o.Medians(ours, p50us); len(points) > 1 {
		first, last := points[0], points[len(points)-1]
		notes = append(notes, say(figure.Remark, "latency-median", facts{
			"First":     first.Y,
			"FirstRate": first.X,
			"Last":      last.Y,
			"LastRate":  last.X,
		}))
	}
	head, tail := o.Median(netChain, o.Xs[0], headP50us), o.Median(netChain, o.Xs[0], tailP50us)
	if ratio := figure.Ratio(head, tail); ratio != nil {
		notes = append(notes, say(verdict(*ratio > 1.2), "latency-head", facts{"Times": *ratio}))
	}
	return explain(
		append(notes, readTime.notes(o)...),
		say(figure.Remark, "why-latency", nil),
	)
}
