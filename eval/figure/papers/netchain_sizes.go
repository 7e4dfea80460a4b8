package papers

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

// readsAndWrites is the work of figures that show both.
func readsAndWrites() []bench.Work { return []bench.Work{{}, {WriteShare: 1}} }

func readWritePanels() []figure.Panel {
	return []figure.Panel{
		{Title: "reads", Metric: readsPerS, Label: "reads/s", Unit: "reads/s"},
		{Title: "writes", Metric: writesPerS, Label: "writes/s", Unit: "writes/s"},
	}
}

func netchainValueSize() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-value-size", Title: "Throughput by the size of the value",
		Source: figure.Source{
			Paper: "NetChain (NSDI'18), figure 9a, as summarised",
			Reports: "Values of 0 to 128 bytes make no difference, to NetChain on switches (82 million queries/s) " +
				"nor to ZooKeeper.",
		},
		X:      figure.Axis{Label: "value, bytes"},
		Panels: readWritePanels(),
		Series: append(compared(func(x float64) bool { return x == lineValueBytes }), sizedReads.series()),
		Needs:  figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{16, 128},
			Rounds: 2,
			Window: 250 * time.Millisecond,
			Budget: 15 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{16, 32, 64, 96, 128},
			Rounds: 11,
			Window: 500 * time.Millisecond,
			Budget: 120 * time.Second,
		},
		Open: lineFigure("3", valueSizeWork),
		Results: func(o *figure.Outcome) []figure.Result {
			all := append(
				sizeResults("values of %g bytes")(o),
				sizedReads.results(o, readsPerS, "reads/s", "reads, values of %g bytes")...)
			return append(all, sizedWrites.results(o, writesPerS, "writes/s", "writes, values of %g bytes")...)
		},
		Notes: func(o *figure.Outcome) []figure.Note {
			notes := sizeNotes("size of the value", say(figure.Remark, "sizes-values", nil))(o)
			return append(
				notes,
				gainNotes(o, gain{sizedReads, readsPerS, "reads"}, gain{sizedWrites, writesPerS, "writes"})...)
		},
	}
}

// Bundles of objects whose size varies: the fewer requests fit a frame, the longer their values are.
// One series has both.
var (
	sizedReads = bundles{
		ours + ", as many requests a frame as fit",
		ours,
		netcraqPaper,
		bundleVariant,
		func(x float64) int { return bench.MostReads(int(x)) },
	}
	sizedWrites = bundles{
		sizedReads.name,
		ours,
		netcraqPaper,
		bundleVariant,
		func(x float64) int { return bench.MostWrites(int(x)) },
	}
)

func valueSizeWork(c figure.Cell) (lineKey, []bench.Work) {
	alone, reads := sizedReads.resolve(c)
	_, writes := sizedWrites.resolve(c)
	works := readsAndWrites()
	works[0].Slots, works[1].Slots = reads, writes
	return lineKey{
		protocol:   protocols[alone.Series],
		nodes:      netChainChain,
		keys:       lineKeys,
		valueBytes: int(c.X),
		slots:      reads,
	}, works
}

func netchainStoreSize() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-store-size", Title: "Throughput by the number of objects",
		Source: figure.Source{
			Paper:   "NetChain (NSDI'18), figure 9b, as summarised",
			Reports: "The size of the store, up to 100,000 objects, makes no difference, to NetChain nor to ZooKeeper.",
		},
		X:      figure.Axis{Label: "objects", Log: true},
		Panels: readWritePanels(),
		Series: compared(nil),
		Needs:  figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{1000, 30_000},
			Rounds: 2,
			Window: 250 * time.Millisecond,
			Budget: 15 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{1000, 10_000, 30_000, 100_000},
			Rounds: 11,
			Window: 500 * time.Millisecond,
			Budget: 100 * time.Second,
		},
		Open: lineFigure("3", func(c figure.Cell) (lineKey, []bench.Work) {
			return lineKey{
				protocol:   protocols[c.Series],
				nodes:      netChainChain,
				keys:       int(c.X),
				valueBytes: lineValueBytes,
			}, readsAndWrites()
		}),
		Results: sizeResults(
			"%g objects"), Notes: sizeNotes("number of objects", say(figure.Remark, "sizes-objects", nil)),
	}
}

// sizeResults are those of reads and writes at every place. The paper's rate is that of NetChain's
// switches, independent of the size.
func sizeResults(place string) func(*figure.Outcome) []figure.Result {
	return func(o *figure.Outcome) []figure.Result {
		var all []figure.Result
		for _, x := range o.Xs {
			at := fmt.Sprintf(place, x)
			for _, m := range []struct{ metric, text string }{{readsPerS, "reads"}, {writesPerS, "writes"}} {
				r := versus(o, m.metric, m.text+", "+at, m.text+"/s", x,
					figure.AtLeast(1, netChain, o.Median(ours, x, m.metric), o.Median(netChain, x, m.metric)))
				r.Values[figure.Paper] = figure.Value(paperNetChainPerS)
				all = append(all, r)
			}
		}
		all = append(all, neverBehind(o, readsPerS, "reads")...)
		return append(all, neverBehind(o, writesPerS, "writes")...)
	}
}

// sizeNotes say how much the size matters.
func sizeNotes(what string, why figure.Note) func(*figure.Outcome) []figure.Note {
	return func(o *figure.Outcome) []figure.Note {
		var notes []figure.Note
		for _, s := range withoutBundles(o) {
			for _, metric := range []string{readsPerS, writesPerS} {
				points := o.Medians(s.Name, metric)
				if len(points) < 2 {
					continue
				}
				change := points[len(points)-1].Y/points[0].Y - 1
				kind := map[string]string{readsPerS: "reads", writesPerS: "writes"}[metric]
				notes = append(notes, say(verdict(change > -0.1 && change < 0.1), "sizes-change", facts{
					"Series":  s.Name,
					"Kind":    kind,
					"What":    what,
					"Percent": 100 * change,
					"First":   o.Spec.X.Place(points[0].X),
					"Last":    o.Spec.X.Place(points[len(points)-1].X),
				}))
			}
		}
		if slower := figure.Least(o.Ratios(ours, netcraqPaper, readsPerS)); slower != nil && slower.Y < 1 {
			notes = append(
				notes,
				say(figure.Remark, "sizes-published", facts{"Times": 1 / slower.Y}),
			)
		}
		return append(
			explain(notes, say(figure.Remark, "why-sizes", nil)),
			why,
			say(figure.Remark, "sizes-zookeeper", nil),
		)
	}
}
