package papers

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

func netcraqLength() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-length", Title: "Reads at the head by the length of the chain",
		Source: figure.Source{
			Paper: netcraqPapers + ", figure 6 (Kubernetes paper: figure 5)",
			Reports: "Reads at the head do not depend on the length. NetChain's are halved from 4 nodes to 8, " +
				"where NetCRAQ reads up to 9.46 times as much.",
		},
		X:      figure.Axis{Label: "nodes of the chain"},
		Panels: []figure.Panel{{Metric: readsPerS, Label: "reads/s", Unit: "reads/s"}},
		Series: append(compared(nil), bundledReads.series()),
		Needs:  figure.Needs{Root: true},
		Quick:  figure.Plan{Xs: []float64{4, 8}, Rounds: 3, Window: 150 * time.Millisecond, Budget: 20 * time.Second},
		Full: figure.Plan{
			Xs:     []float64{4, 5, 6, 7, 8},
			Rounds: 11,
			Window: 300 * time.Millisecond,
			Budget: 130 * time.Second,
		},
		Open: lineFigure("4 to 8", func(c figure.Cell) (lineKey, []bench.Work) {
			c, slots := bundledReads.resolve(c)
			return lineKey{
					protocol:   protocols[c.Series],
					nodes:      int(c.X),
					keys:       lineKeys,
					valueBytes: lineValueBytes,
					slots:      slots,
				}, []bench.Work{
					{Slots: slots},
				}
		}),
		Results: lengthResults, Notes: lengthNotes,
	}
}

// lengthPapers are the ratios to NetChain that are reported, by length.
var lengthPapers = map[float64]float64{4: 4.08, 8: 9.46}

func lengthResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		all = append(
			all,
			versus(o, readsPerS, fmt.Sprintf("reads at the head of %g", x), "reads/s", x, nil),
			ratioTo(o, readsPerS, fmt.Sprintf("reads at the head of %g, against NetChain", x), x, lengthPapers[x],
				lengthPapers[x]),
		)
	}
	all = append(all, neverBehind(o, readsPerS, "reads at the head")...)
	return append(all, bundledReads.results(o, readsPerS, "reads/s", "reads at the head of %g")...)
}

// againstNetChain compares chains of 4 and 8 nodes with the paper.
func againstNetChain(o *figure.Outcome) (notes []figure.Note) {
	for _, x := range []float64{4, 8} {
		for _, series := range []string{netcraqPaper, ours} {
			notes = append(notes, againstPaper(fmt.Sprintf("Chain of %g", x),
				figure.Ratio(o.Median(series, x, readsPerS), o.Median(netChain, x, readsPerS)), lengthPapers[x],
				series)...)
		}
	}
	if half := figure.Ratio(o.Median(netChain, 8, readsPerS), o.Median(netChain, 4, readsPerS)); half != nil {
		notes = append(notes, say(verdict(*half > 0.4 && *half < 0.65), "length-half", facts{"Times": *half}))
	}
	return notes
}

func lengthNotes(o *figure.Outcome) []figure.Note {
	notes := againstNetChain(o)
	if points := o.Medians(ours, readsPerS); len(points) > 1 {
		spread := 1 - figure.Least(points).Y/figure.Most(points).Y
		notes = append(
			notes,
			say(verdict(spread < 0.1), "length-spread", facts{"Percent": 100 * spread}),
		)
	}
	const more = 2 * (8 - 4) // packets passed on, of a read in a chain of 8
	notes = explain(notes, whyRatiosDiffer(o.Median(netChain, 4, readsPerS), o.Median(netChain, 8, readsPerS),
		o.Median(ours, 4, readsPerS), more))
	return append(notes, gainNotes(o, gain{bundledReads, readsPerS, "reads"})...)
}
