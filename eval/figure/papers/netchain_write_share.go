package papers

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// oursCloned is ours as it is set up by default, for chains whose nodes are all as far from each
// other: the tail sends an ACK to each member itself.
const oursCloned = "NetCRAQ, cloned ACKs"

// Operations a second in NetChain's paper: NetChain at any share of writes and any size, limited
// by its clients, and ZooKeeper with reads alone and writes alone.
const (
	paperNetChainPerS        = 82e6
	paperZooKeeperReadsPerS  = 230e3
	paperZooKeeperWritesPerS = 27e3
)

func netchainWriteShare() *figure.Spec {
	return &figure.Spec{
		Name: "netchain-write-share", Title: "Throughput by the share of writes",
		Source: figure.Source{
			Paper: "NetChain (NSDI'18), figure 9c, as summarised",
			Reports: "NetChain answers 82 million queries/s at every share of writes, the limit of four clients; " +
				"ZooKeeper falls from 230,000 to 27,000.",
		},
		X:      figure.Axis{Label: "share of writes, %"},
		Panels: []figure.Panel{{Metric: opsPerS, Label: "operations/s", Unit: "operations/s", Log: true}},
		Series: append(compared(nil), bundledWrites.series(),
			figure.Series{Name: oursCloned, Role: plot.Ours, Variant: 2, Has: func(x float64) bool { return x > 0 }}),
		Needs: figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{0, 50, 100},
			Rounds: 3,
			Window: 125 * time.Millisecond,
			Budget: 15 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{0, 1, 20, 40, 60, 80, 100},
			Rounds: 9,
			Window: 400 * time.Millisecond,
			Budget: 160 * time.Second,
		},
		Open: lineFigure("3", func(c figure.Cell) (lineKey, []bench.Work) {
			c, slots := bundledWrites.resolve(c)
			clones := c.Series == oursCloned
			if clones {
				c.Series = ours
			}
			return lineKey{
					protocol:   protocols[c.Series],
					nodes:      netChainChain,
					keys:       lineKeys,
					valueBytes: lineValueBytes,
					slots:      slots,
					clones:     clones,
				}, []bench.Work{
					{WriteShare: c.X / 100, Slots: slots},
				}
		}),
		Results: writeShareResults, Notes: writeShareNotes,
	}
}

func writeShareResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		r := versus(o, opsPerS, fmt.Sprintf("operations at %g %% writes", x), "operations/s", x,
			figure.AtLeast(1, netChain, o.Median(ours, x, opsPerS), o.Median(netChain, x, opsPerS)))
		r.Values[figure.Paper] = figure.Value(paperNetChainPerS)
		all = append(all, r)
		if zookeeper, ok := map[float64]float64{0: paperZooKeeperReadsPerS, 100: paperZooKeeperWritesPerS}[x]; ok {
			all = append(all, figure.Result{
				Metric: fmt.Sprintf(
					"operations of ZooKeeper at %g %% writes, as the paper has them (here: peers-operations)",
					x),
				Unit:   "operations/s",
				Values: figure.Values{figure.Paper: &zookeeper},
			})
		}
	}
	all = append(all, neverBehind(o, opsPerS, "operations")...)
	for _, p := range o.Medians(oursCloned, opsPerS) {
		all = append(all, figure.Result{
			Metric: fmt.Sprintf("operations at %g %% writes, cloned ACKs", p.X),
			Unit:   "operations/s",
			Values: figure.Values{
				figure.NetChain:     o.Median(netChain, p.X, opsPerS),
				figure.NetCRAQPaper: o.Median(netcraqPaper, p.X, opsPerS),
				figure.Ours:         &p.Y,
			},
		})
	}
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
			notes = append(notes, say(how, "writes-times", facts{"Series": s.Name, "Times": *rest}))
		}
	}
	if ratio := figure.Ratio(o.Median(ours, 100, opsPerS), o.Median(netChain, 100, opsPerS)); ratio != nil &&
		*ratio < 1 {
		notes = append(notes, say(figure.Remark, "writes-netchain", facts{"Times": 1 / *ratio}))
	}
	least := figure.Least(o.Ratios(oursCloned, ours, opsPerS))
	against := figure.Least(o.Ratios(oursCloned, netChain, opsPerS))
	if least != nil &&
		against != nil {
		notes = append(notes, say(figure.Remark, "writes-cloned", facts{"Times": least.Y, "NetChain": against.Y}))
	}
	notes = append(notes, gainNotes(o, gain{bundledWrites, opsPerS, "operations"})...)
	return explain(notes, say(figure.Remark, "why-writes", nil))
}
