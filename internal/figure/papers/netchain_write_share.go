package papers

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/internal/bench"
	"github.com/netcraq/netcraq/internal/figure"
)

func netchainWriteShare() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-write-share", Title: "Throughput by the share of writes",
		Source: figure.Source{Paper: "NetChain (NSDI'18), figure 9c, as summarised", Reports: "NetChain does 82 million queries/s at every share of writes, which is what four clients can send; ZooKeeper falls from 230,000 to 27,000."},
		X:      figure.Axis{Label: "share of writes, %"},
		Panels: []figure.Panel{{Metric: opsPerS, Label: "operations/s", Unit: "operations/s", Log: true}},
		Series: append(compared(nil), bundledWrites.series()),
		Needs:  figure.Needs{Root: true},
		Quick:  figure.Plan{Xs: []float64{0, 50, 100}, Rounds: 3, Turn: 150 * time.Millisecond, Budget: 15 * time.Second},
		Full:   figure.Plan{Xs: []float64{0, 1, 20, 40, 60, 80, 100}, Rounds: 11, Turn: 400 * time.Millisecond, Budget: 160 * time.Second},
		Open: lineFigure("3", func(c figure.Cell) (lineKey, []bench.Work) {
			c, slots := bundledWrites.resolve(c)
			return lineKey{protocol: protocols[c.Series], nodes: netChainChain, keys: lineKeys, valueBytes: lineValueBytes, slots: slots}, []bench.Work{{WriteShare: c.X / 100, Slots: slots}}
		}),
		Results: writeShareResults, Notes: writeShareNotes,
	}
}

func writeShareResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		all = append(all, versus(o, opsPerS, fmt.Sprintf("operations at %g %% writes", x), "operations/s", x,
			figure.AtLeast(1, "NetChain", o.Median(ours, x, opsPerS), o.Median(netChain, x, opsPerS))))
	}
	all = append(all, neverBehind(o, opsPerS, "operations")...)
	return append(all, bundledWrites.results(o, opsPerS, "operations/s", "operations at %g %% writes")...)
}

func writeShareNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, s := range withoutBundles(o) {
		if rest := figure.Ratio(o.Median(s.Name, 100, opsPerS), o.Median(s.Name, 0, opsPerS)); rest != nil {
			how := figure.Remark // the paper speaks of NetChain only
			if s.Name == netChain {
				how = verdict(*rest > 0.9)
			}
			notes = append(notes, say(how, "%s: writes alone are %s times the rate of reads alone (the paper, of NetChain: the same, as its clients could not send more).", s.Name, number(*rest)))
		}
	}
	if ratio := figure.Ratio(o.Median(ours, 100, opsPerS), o.Median(netChain, 100, opsPerS)); ratio != nil && *ratio < 1 {
		notes = append(notes, say(figure.Remark, "NetChain writes %s times as fast as NetCRAQ: it sends no acknowledgements up the chain, remembers no sessions and so cannot tell a repeated write from a new one, and compares no epochs. That is what its losses in the figure published-losses cost nothing.", number(1 / *ratio)))
	}
	notes = append(notes, gainNotes(o, gain{bundledWrites, opsPerS, "operations"})...)
	return explain(notes, "Why: on the paper's testbed the clients were the limit, not the switches. Here nodes and client share a CPU, and a write is work at every node of the chain.")
}
