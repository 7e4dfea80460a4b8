package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/eval/scale"
)

// zipfBound is the series of an upper bound that no client reaches: reads of every object are
// distributed with knowledge of the load of all switches.
const zipfBound = ours + ", Zipf, upper bound"

// scaled are the protocols of a series, whether its keys are popular by Zipf's law, and how reads
// are shared among the members of a chain.
var scaled = map[string]struct {
	line     bench.Protocol
	protocol scale.Protocol
	zipf     float64
	spread   scale.Spread
}{
	ours: {
		bench.NetCRAQ,
		scale.Ours,
		0,
		scale.Even,
	}, ours + ", Zipf": {bench.NetCRAQ, scale.Ours, zipfExponent, scale.Even},
	zipfBound: {bench.NetCRAQ, scale.Ours, zipfExponent, scale.Level},
	netChain: {
		bench.NetChain,
		scale.NetChain,
		0,
		scale.Even,
	}, netChain + ", Zipf": {bench.NetChain, scale.NetChain, zipfExponent, scale.Even},
	netcraqPaper: {
		bench.NetCRAQPaper,
		scale.NetCRAQPaper,
		0,
		scale.Even,
	}, netcraqPaper + ", Zipf": {bench.NetCRAQPaper, scale.NetCRAQPaper, zipfExponent, scale.Even},
}

// Work of the figure.
const (
	mixedPerS  = "mixed_per_s"
	mixedShare = 0.05 // of writes
)

func netchainScaling() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-scaling", Title: "Throughput by the number of switches, calculated from rates measured here",
		Source: figure.Source{
			Paper:   "NetChain (NSDI'18), figure 9f, as summarised",
			Reports: "By simulation of spine-leaf networks: throughput grows linearly with the number of switches.",
		},
		X: figure.Axis{Label: "switches, spine-leaf", Log: true},
		Panels: []figure.Panel{
			{Title: "reads", Metric: readsPerS, Label: "reads/s", Unit: "reads/s", Log: true},
			{Title: "5 % writes", Metric: mixedPerS, Label: "operations/s", Unit: "operations/s", Log: true},
		},
		Series: []figure.Series{
			{Name: ours, Role: plot.Ours},
			{Name: ours + ", Zipf", Role: plot.Ours, Variant: 1},
			{Name: netChain, Role: plot.NetChain},
			{
				Name:    netChain + ", Zipf",
				Role:    plot.NetChain,
				Variant: 1,
			},
			{Name: netcraqPaper, Role: plot.NetCRAQPaper},
			{Name: netcraqPaper + ", Zipf", Role: plot.NetCRAQPaper, Variant: 1},
			{Name: zipfBound, Role: plot.Ours, Variant: 2},
		},
		Needs: figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{6, 24, 96},
			Rounds: 1,
			Window: 150 * time.Millisecond,
			Budget: 20 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{6, 12, 24, 48, 96, 192, 384, 768},
			Rounds: 3,
			Window: 400 * time.Millisecond,
			Budget: 80 * time.Second,
		},
		Open: openScaling, Results: scalingResults, Notes: scalingNotes,
	}
}

// scalingHarness measures rates anew whenever a cell is asked for again, which is once a round.
type scalingHarness struct {
	harness
	lines   *keep[lineKey, *bench.Line]
	draws   int     // hashes of keys to shards that are tried
	transit float64 // packets a second passed on, which all protocols do alike; 0: not measured in this round
	rates   map[bench.Protocol]scale.Rates
	asked   map[figure.Cell]bool
}

func openScaling(_ context.Context, env figure.Env) (figure.Harness, error) {
	r := &scalingHarness{
		lines: newLines(env),
		rates: make(map[bench.Protocol]scale.Rates),
		asked: make(map[figure.Cell]bool),
	}
	r.close = r.lines.all
	if env.Quick {
		r.draws = 1
	}
	r.settings = append(
		lineSettings("2 and 3"),
		"NetCRAQ: the tail sends every member an ACK, as it does by default",
		"the costs of forwarding, reading, writing and committing are derived from lines of 2 and 3 "+
			"nodes; a switch is busy for their sum",
		"spine-leaf fabrics with one spine for two leaves, clients under leaves, equal use of equal "+
			"paths; chains of 3 by consistent hashing; 100,000 keys, uniform or by Zipf 0.99",
		"reads of both NetCRAQs: clients ask a uniformly random member of the chain (Spread in the "+
			"client library; its default is the fastest member, which depends on load). "+
			"Upper bound: reads are distributed so that the busiest switch does as little as possible. "+
			"No client has the necessary knowledge of all switches, so no line of the table uses it",
	)
	return r, nil
}

// Measure calculates one fabric.
func (r *scalingHarness) Measure(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
	if r.asked[cell] { // a new round
		clear(r.asked)
		clear(r.rates)
		r.transit = 0
	}
	r.asked[cell] = true
	s := scaled[cell.Series]
	rates, ok := r.rates[s.line]
	if !ok {
		var err error
		if rates, err = r.measureRates(ctx, s.line, s.protocol, window); err != nil {
			return figure.Sample{}, err
		}
		r.rates[s.line] = rates
	}
	fabric := scale.SpineLeaf(int(cell.X))
	reads, err := scale.Throughput(fabric, s.protocol, rates,
		scale.Work{Zipf: s.zipf, Spread: s.spread, Seed: 1, Draws: r.draws})
	if err != nil {
		return figure.Sample{}, err
	}
	mixed, err := scale.Throughput(fabric, s.protocol, rates,
		scale.Work{Zipf: s.zipf, Spread: s.spread, WriteShare: mixedShare, Seed: 1, Draws: r.draws})
	if err != nil {
		return figure.Sample{}, err
	}
	return values(
		map[string]float64{
			readsPerS:            reads.PerSecond,
			mixedPerS:            mixed.PerSecond,
			"busy_on_average":    reads.MeanBusy,
			"packets_per_read":   reads.Packets,
			"rate_transit_per_s": rates.Transit,
			"rate_read_per_s":    rates.Read,
			"rate_write_per_s":   rates.Write,
			"rate_commit_per_s":  rates.Commit,
		},
	), nil
}

// throughput measures a line of some nodes.
func (r *scalingHarness) throughput(
	ctx context.Context,
	p bench.Protocol,
	nodes int,
	w bench.Work,
	window time.Duration,
) (float64, error) {
	l, err := r.lines.get(ctx,
		lineKey{protocol: p, nodes: nodes, keys: lineKeys, valueBytes: lineValueBytes, dirty: w.Dirty, clones: true})
	if err != nil {
		return 0, err
	}
	found, err := l.Throughput(ctx, w, window)
	return found.ReadsPerS + found.WritesPerS, err
}

// measureTransit measures how fast packets are passed on, by reads of NetChain that enter at the
// tail, and at the head.
func (r *scalingHarness) measureTransit(ctx context.Context, window time.Duration) error {
	near, err := r.throughput(ctx, bench.NetChain, netChainChain, bench.Work{Target: netChainChain - 1}, window)
	if err != nil {
		return err
	}
	far, err := r.throughput(ctx, bench.NetChain, netChainChain, bench.Work{}, window)
	if err != nil {
		return err
	}
	r.transit, err = scale.TransitRate(near, far)
	return err
}

// measureRates measures lines and takes their times apart.
func (r *scalingHarness) measureRates(
	ctx context.Context,
	line bench.Protocol,
	protocol scale.Protocol,
	window time.Duration,
) (scale.Rates, error) {
	if r.transit == 0 {
		if err := r.measureTransit(ctx, window); err != nil {
			return scale.Rates{}, err
		}
	}
	found := scale.Lines{Transit: r.transit}
	var err error
	for _, m := range []struct {
		rate  *float64
		nodes int
		work  bench.Work
	}{
		{&found.Read, 3, bench.Work{Target: 2}}, {&found.WriteTwo, 2, bench.Work{WriteShare: 1}},
		{&found.WriteThree, 3, bench.Work{WriteShare: 1}}, {&found.DirtyHead, 3, bench.Work{Dirty: true}},
	} {
		if m.work.Dirty && line == bench.NetChain {
			continue
		}
		if *m.rate, err = r.throughput(ctx, line, m.nodes, m.work, window); err != nil {
			return scale.Rates{}, err
		}
	}
	return found.Rates(protocol)
}

func scalingResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, keys := range []string{"", ", Zipf"} {
			for _, m := range []struct{ metric, text, unit string }{
				{readsPerS, "reads", "reads/s"}, {mixedPerS, "operations with 5 % writes", "operations/s"},
			} {
				chain, theirs, mine := o.Median(netChain+keys, x, m.metric), o.Median(netcraqPaper+keys, x,
					m.metric), o.Median(ours+keys, x, m.metric)
				all = append(all, figure.Result{
					Metric: fmt.Sprintf("%s on %g switches%s", m.text, x, keys),
					Unit:   m.unit,
					Values: figure.Values{
						figure.NetChain:     chain,
						figure.NetCRAQPaper: theirs,
						figure.Ours:         mine,
					},
				})
			}
		}
	}
	return all
}

func scalingNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, s := range o.Spec.Series {
		points := o.Medians(s.Name, readsPerS)
		if s.Name == zipfBound || len(points) < 2 {
			continue
		}
		first, last := points[0], points[len(points)-1]
		linear := (last.Y / first.Y) / (last.X / first.X)
		how := verdict(linear > 0.7)
		if scaled[s.Name].zipf > 0 { // the paper says nothing of popular keys
			how = figure.Remark
		}
		notes = append(
			notes,
			say(how, "scaling-grows", facts{
				"Series":  s.Name,
				"First":   first.X,
				"Last":    last.X,
				"Times":   last.Y / first.Y,
				"Percent": 100 * linear,
			}),
		)
	}
	notes = explain(notes, say(figure.Remark, "why-scaling", nil))
	notes = append(notes, boundNotes(o)...)
	return append(notes, say(figure.Remark, "scaling-software", nil))
}

// boundNotes say how far clients that ask any member stay below the bound, and where a published
// protocol carries more than ours does.
func boundNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	if least := figure.Least(o.Ratios(ours+", Zipf", zipfBound, readsPerS)); least != nil {
		notes = append(notes, say(figure.Remark, "scaling-bound", facts{
			"Percent":  100 * least.Y,
			"Switches": least.X,
		}))
	}
	for _, keys := range []string{"", ", Zipf"} {
		for _, m := range []struct{ metric, text string }{{readsPerS, "reads"}, {mixedPerS, "operations with 5 % writes"}} {
			for _, theirs := range []string{netChain, netcraqPaper} {
				if least := figure.Least(o.Ratios(ours+keys, theirs+keys, m.metric)); least != nil && least.Y < 0.95 {
					notes = append(notes, say(figure.Remark, "scaling-behind", facts{
						"Series":   theirs,
						"Keys":     keys,
						"What":     m.text,
						"Share":    least.Y,
						"Switches": least.X,
					}))
				}
			}
		}
	}
	return notes
}
