package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// p4Keys are the objects of a line of P4 nodes: its control plane adds a table entry for each.
const p4Keys = 50

// p4Needs are those of the figures with P4 nodes.
var p4Needs = figure.Needs{Root: true, Made: "make p4-engine"}

// onP4 is the line of a cell, of P4 nodes.
func onP4(c figure.Cell, nodes int) lineKey {
	return lineKey{protocol: protocols[c.Series], nodes: nodes, keys: p4Keys, valueBytes: lineValueBytes, p4: true}
}

// p4Figure opens a figure whose nodes are P4 programs on SWX.
func p4Figure(
	what func(figure.Cell) (lineKey, []bench.Work),
) func(context.Context, figure.Env) (figure.Harness, error) {
	return func(_ context.Context, env figure.Env) (figure.Harness, error) {
		if _, err := p4.FindEngine(); err != nil {
			return nil, &figure.Unable{Why: err.Error()}
		}
		return openLines(env, []string{
			"the P4 programs of all three protocols run on DPDK's SWX (p4/engine), one process for each node, and forward the " +
				"packets of the others. Generator and nodes share the machine's CPUs",
			"8 requests are under way at a time",
			"NetCRAQ: ACKs travel up the chain hop by hop, except for dirty objects. NetChain: SEQ of 32 bits. NetCRAQ " +
				"as published: 8 versions of an object",
		}, what), nil
	}
}

func netcraqDistanceP4() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-distance-p4", Title: "Reads by the distance from the tail, on P4 nodes",
		Source: netcraqDistance().Source,
		X:      netcraqDistance().X,
		Panels: netcraqDistance().Panels,
		Series: append(compared(nil), figure.Series{Name: oursDirty, Role: plot.Ours, Variant: 1},
			figure.Series{Name: netcraqPaperDirty, Role: plot.NetCRAQPaper, Variant: 1}),
		Needs: p4Needs,
		Quick: figure.Plan{Xs: []float64{0, 3}, Rounds: 2, Window: 500 * time.Millisecond, Budget: 120 * time.Second},
		Full: figure.Plan{
			Xs: figure.Counting(paperChain), Rounds: 5, Window: 1500 * time.Millisecond, Budget: 420 * time.Second,
		},
		Open: p4Figure(func(c figure.Cell) (lineKey, []bench.Work) {
			w := bench.Work{Target: paperChain - 1 - int(c.X)}
			switch c.Series {
			case oursDirty:
				c.Series, w.Dirty = ours, true
			case netcraqPaperDirty:
				c.Series, w.Dirty = netcraqPaper, true
			}
			key := onP4(c, paperChain)
			key.dirty = w.Dirty
			return key, []bench.Work{w}
		}),
		Results: func(o *figure.Outcome) []figure.Result {
			return []figure.Result{
				ratioTo(o, readsPerS, "clean reads at the head of 4 P4 nodes, against NetChain", atHead, 4.08, 0),
				dirtyRatio(o, "reads of dirty objects at the head, against NetChain", atHead, 1.105),
				dirtyRatio(o, "reads of dirty objects at the tail, against NetChain", atTail, 1.22),
			}
		},
		Notes: func(o *figure.Outcome) []figure.Note {
			chain := o.Median(netChain, atHead, readsPerS)
			notes := againstPaper("Clean reads at the head", figure.Ratio(o.Median(netcraqPaper, atHead, readsPerS), chain),
				4.08, netcraqPaper)
			notes = append(notes, againstPaper("Clean reads at the head",
				figure.Ratio(o.Median(ours, atHead, readsPerS), chain), 4.08, ours)...)
			notes = append(notes, againstPaper("Dirty reads at the head",
				figure.Ratio(o.Median(netcraqPaperDirty, atHead, readsPerS), chain), 1.105, netcraqPaper)...)
			return append(notes, say(figure.Remark, "p4-work", facts{"Packets": 2*(paperChain-1) + 1}))
		},
	}
}

func netcraqLengthP4() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-length-p4", Title: "Reads at the head by the length of the chain, on P4 nodes",
		Source: netcraqLength().Source,
		X:      netcraqLength().X,
		Panels: netcraqLength().Panels,
		Series: compared(nil),
		Needs:  p4Needs,
		Quick:  figure.Plan{Xs: []float64{4, 8}, Rounds: 2, Window: 500 * time.Millisecond, Budget: 120 * time.Second},
		Full: figure.Plan{
			Xs: []float64{4, 6, 8}, Rounds: 5, Window: 1500 * time.Millisecond, Budget: 420 * time.Second,
		},
		Open: p4Figure(func(c figure.Cell) (lineKey, []bench.Work) {
			return onP4(c, int(c.X)), []bench.Work{{}}
		}),
		Results: func(o *figure.Outcome) (all []figure.Result) {
			for _, x := range o.Xs {
				all = append(all, ratioTo(o, readsPerS,
					fmt.Sprintf("reads at the head of %g P4 nodes, against NetChain", x), x, lengthPapers[x], 0))
			}
			return all
		},
		Notes: func(o *figure.Outcome) []figure.Note {
			return append(againstNetChain(o), say(figure.Remark, "p4-work", facts{"Packets": 2*(8-1) + 1}))
		},
	}
}
