package papers

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

const dirtyCommits = "dirty_commits_per_s"

func netcraqMixed() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-mixed", Title: "Reads among writes, and objects made dirty",
		Source: figure.Source{
			Paper: netcraqPapers + ", figure 5 (Kubernetes paper: figure 4)",
			Reports: "NetCRAQ reads more than twice as much as NetChain at every share of writes from 0 to 75 %. " +
				"With 75 % writes both lose about 85 % of their reads. Dirty commits grow with the share " +
				"of writes.",
		},
		X: figure.Axis{Label: "share of writes, %"},
		Panels: []figure.Panel{
			{Title: "reads", Metric: readsPerS, Label: "reads/s", Unit: "reads/s", Log: true},
			{
				Title:  "writes applied before the tail (dirty commits)",
				Metric: dirtyCommits,
				Label:  "commits/s",
				Unit:   "commits/s",
				Only:   []string{ours, netcraqPaper, bundledWrites.name},
			},
		},
		Series: append(compared(nil), bundledWrites.series()),
		Needs:  figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{0, 25, 75},
			Rounds: 3,
			Window: 150 * time.Millisecond,
			Budget: 15 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{0, 25, 50, 75},
			Rounds: 15,
			Window: 400 * time.Millisecond,
			Budget: 120 * time.Second,
		},
		Open: lineFigure("4", func(c figure.Cell) (lineKey, []bench.Work) {
			c, slots := bundledWrites.resolve(c)
			return lineKey{
					protocol:   protocols[c.Series],
					nodes:      paperChain,
					keys:       lineKeys,
					valueBytes: lineValueBytes,
					slots:      slots,
				}, []bench.Work{
					{WriteShare: c.X / 100, Slots: slots},
				}
		}),
		Results: mixedResults, Notes: mixedNotes,
	}
}

func mixedResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		all = append(all, versus(o, readsPerS, fmt.Sprintf("reads at %g %% writes", x), "reads/s", x, nil),
			ratioTo(o, readsPerS, fmt.Sprintf("reads at %g %% writes, against NetChain", x), x, 2, 2))
	}
	all = append(all, neverBehind(o, readsPerS, "reads among writes")...)
	return append(all, bundledWrites.results(o, readsPerS, "reads/s", "reads at %g %% writes")...)
}

func mixedNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, series := range []string{netcraqPaper, ours} {
		if least := figure.Least(o.Ratios(series, netChain, readsPerS)); least != nil {
			notes = append(notes, say(verdict(least.Y >= 2), "mixed-times", facts{
				"Series":  series,
				"Times":   least.Y,
				"Percent": least.X,
			}))
		}
	}
	for _, s := range withoutBundles(o) {
		if rest := figure.Ratio(o.Median(s.Name, 75, readsPerS), o.Median(s.Name, 0, readsPerS)); rest != nil {
			loss := 100 * (1 - *rest)
			notes = append(notes, say(verdict(loss > 75 && loss < 95), "mixed-loses", facts{
				"Series":  s.Name,
				"Percent": loss,
			}))
		}
	}
	for _, series := range []string{netcraqPaper, ours} {
		if points := o.Medians(series, dirtyCommits); len(points) > 1 {
			first, last := points[0], points[len(points)-1]
			notes = append(notes, say(verdict(last.Y > first.Y), "mixed-dirty", facts{
				"Series":       series,
				"First":        first.Y,
				"FirstPercent": first.X,
				"Last":         last.Y,
				"LastPercent":  last.X,
			}))
		}
	}
	if over := o.Median(netcraqPaper, o.Xs[len(o.Xs)-1], "overflows_percent"); over != nil && *over > 0 {
		notes = append(notes, say(figure.Remark, "mixed-overflows", facts{"Percent": *over}))
	}
	notes = append(notes, gainNotes(o, gain{bundledWrites, readsPerS, "reads among writes"})...)
	return explain(notes, say(figure.Remark, "why-mixed", nil))
}
