package papers

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// Series of objects that are dirty.
const (
	oursDirty         = "NetCRAQ, dirty"
	netcraqPaperDirty = "NetCRAQ as published, dirty"
)

// bundledClean are reads of clean objects in bundles, beside the series of dirty ones.
var bundledClean = bundles{bundledReads.name, ours, netcraqPaper, 2, bundledReads.most}

// bundledDirty are reads of dirty objects in bundles: fewer fit, because one on its way to the tail
// is longer.
var bundledDirty = func() bundles {
	n := bench.MostDirtyReads(lineValueBytes)
	return bundles{
		fmt.Sprintf("%s, %d requests a frame", oursDirty, n),
		oursDirty,
		netcraqPaperDirty,
		3,
		func(float64) int { return n },
	}
}()

// netcraqPapers is how both papers are cited; the figure's number differs.
const netcraqPapers = "NetCRAQ, in-network coordination"

func netcraqDistance() *figure.Spec {
	xs := figure.Counting(paperChain)
	series := append(compared(nil), figure.Series{Name: oursDirty, Role: plot.Ours, Variant: 1},
		figure.Series{Name: netcraqPaperDirty, Role: plot.NetCRAQPaper, Variant: 1}, bundledClean.series(),
		bundledDirty.series())
	return &figure.Spec{
		Name: "netcraq-distance", Title: "Reads by the distance from the tail",
		Source: figure.Source{
			Paper: netcraqPapers + ", figure 3 (Kubernetes paper: figure 2)",
			Reports: "Clean reads do not depend on the distance and are 4.08 times NetChain's at the head of a " +
				"chain of 4. " +
				"Reads of dirty objects: 22 % above NetChain at the tail, 10.5 % at the head.",
		},
		X:      figure.Axis{Label: "links between the node asked and the tail"},
		Panels: []figure.Panel{{Metric: readsPerS, Label: "reads/s", Unit: "reads/s"}},
		Series: series,
		Needs:  figure.Needs{Root: true},
		Quick:  figure.Plan{Xs: []float64{0, 3}, Rounds: 3, Window: 150 * time.Millisecond, Budget: 15 * time.Second},
		Full:   figure.Plan{Xs: xs, Rounds: 13, Window: 300 * time.Millisecond, Budget: 130 * time.Second},
		Open: lineFigure("4", func(c figure.Cell) (lineKey, []bench.Work) {
			w := bench.Work{Target: paperChain - 1 - int(c.X), Slots: 1}
			for _, b := range []bundles{bundledClean, bundledDirty} {
				if c.Series == b.name {
					c, w.Slots = b.resolve(c)
				}
			}
			switch c.Series {
			case oursDirty:
				c.Series, w.Dirty = ours, true
			case netcraqPaperDirty:
				c.Series, w.Dirty = netcraqPaper, true
			}
			return lineKey{
					protocol:   protocols[c.Series],
					nodes:      paperChain,
					keys:       lineKeys,
					valueBytes: lineValueBytes,
					dirty:      w.Dirty,
					slots:      w.Slots,
				}, []bench.Work{
					w,
				}
		}),
		Results: distanceResults, Notes: distanceNotes,
	}
}

const (
	atTail = 0.0
	atHead = paperChain - 1.0
)

func distanceResults(o *figure.Outcome) []figure.Result {
	dirty := func(x float64, text string, paper float64) figure.Result {
		r := dirtyRatio(o, text, x, paper)
		r.Mark = figure.AtLeast(1, "NetCRAQ as published", o.Median(oursDirty, x, readsPerS),
			o.Median(netcraqPaperDirty, x, readsPerS))
		return r
	}
	all := []figure.Result{
		versus(o, readsPerS, "clean reads at the head of 4", "reads/s", atHead, nil),
		ratioTo(o, readsPerS, "clean reads at the head of 4, against NetChain", atHead, 4.08, 4.08),
		dirty(atHead, "reads of dirty objects at the head, against NetChain", 1.105),
		dirty(atTail, "reads of dirty objects at the tail, against NetChain", 1.22),
	}
	all = append(all, neverBehind(o, readsPerS, "clean reads")...)
	all = append(all, bundledClean.results(o, readsPerS, "reads/s", "clean reads %g links from the tail")...)
	return append(
		all,
		bundledDirty.results(o, readsPerS, "reads/s", "reads of dirty objects %g links from the tail")...)
}

// dirtyRatio is a result of how many times NetChain the others do for dirty objects.
func dirtyRatio(o *figure.Outcome, text string, x, paper float64) figure.Result {
	chain := o.Median(netChain, x, readsPerS)
	return figure.Result{
		Metric: text,
		Unit:   "× NetChain",
		Values: figure.Values{
			figure.Paper:        &paper,
			figure.NetChain:     figure.Ratio(chain, chain),
			figure.NetCRAQPaper: figure.Ratio(o.Median(netcraqPaperDirty, x, readsPerS), chain),
			figure.Ours:         figure.Ratio(o.Median(oursDirty, x, readsPerS), chain),
		},
	}
}

func distanceNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	if points := o.Medians(ours, readsPerS); len(points) > 1 {
		spread := 1 - figure.Least(points).Y/figure.Most(points).Y
		notes = append(notes, say(verdict(spread < 0.1), "distance-spread", facts{"Percent": 100 * spread}))
	}
	notes = append(notes, againstPaper("Clean reads at the head",
		figure.Ratio(o.Median(netcraqPaper, atHead, readsPerS), o.Median(netChain, atHead, readsPerS)), 4.08,
		netcraqPaper)...)
	notes = append(notes, againstPaper("Clean reads at the head",
		figure.Ratio(o.Median(ours, atHead, readsPerS), o.Median(netChain, atHead, readsPerS)), 4.08, ours)...)
	notes = append(notes, againstPaper("Dirty reads at the head",
		figure.Ratio(o.Median(netcraqPaperDirty, atHead, readsPerS), o.Median(netChain, atHead, readsPerS)),
		1.105, netcraqPaper)...)
	notes = append(notes, againstPaper("Dirty reads at the tail",
		figure.Ratio(o.Median(netcraqPaperDirty, atTail, readsPerS), o.Median(netChain, atTail, readsPerS)),
		1.22, netcraqPaper)...)
	const more = 2 * (paperChain - 1) // packets passed on, of a read at the head
	notes = explain(
		notes,
		whyRatiosDiffer(o.Median(netChain, atTail, readsPerS), o.Median(netChain, atHead, readsPerS),
			o.Median(ours, atTail, readsPerS), more),
	)
	notes = append(notes, say(figure.Remark, "why-distance-tail", nil))
	if slower := figure.Least(o.Ratios(ours, netcraqPaper, readsPerS)); slower != nil && slower.Y < 1 {
		notes = append(
			notes,
			say(figure.Remark, "distance-published", facts{"Percent": 100 * (1/slower.Y - 1)}),
		)
	}
	notes = append(notes, gainNotes(o, gain{bundledClean, readsPerS, "clean reads"},
		gain{bundledDirty, readsPerS, "reads of dirty objects"})...)
	return append(notes,
		say(figure.Remark, "distance-netchain", nil))
}
