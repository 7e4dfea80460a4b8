package papers

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// psaSwitch is BMv2's switch, which the papers' testbed ran too.
const psaSwitch = "psa_switch"

// bmv2Keys are the objects of a line of psa_switch processes: its control plane adds a table entry for each.
const bmv2Keys = 50

// bmv2Needs are those of the figures with psa_switch.
var bmv2Needs = figure.Needs{Root: true, Made: "a build of BMv2, with psa_switch in PATH (docs/p4.md)"}

// onBMv2 is the line of a cell, on psa_switch.
func onBMv2(c figure.Cell, nodes int) lineKey {
	return lineKey{
		protocol: protocols[c.Series], nodes: nodes, keys: bmv2Keys, valueBytes: lineValueBytes, engine: p4.EngineBMv2,
	}
}

// bmv2Figure opens a figure whose nodes are psa_switch processes.
func bmv2Figure(what func(figure.Cell) (lineKey, []bench.Work)) func(context.Context, figure.Env) (figure.Harness, error) {
	return func(ctx context.Context, env figure.Env) (figure.Harness, error) {
		version, err := exec.CommandContext(ctx, psaSwitch, "--version").Output()
		if err != nil {
			return nil, &figure.Unable{Why: fmt.Sprintf("%v: needs %s", err, bmv2Needs.Made)}
		}
		return openLines(env, []string{
			fmt.Sprintf("psa_switch %s runs the P4 programs of all three protocols (p4/bmv2), one process for each node, and "+
				"forwards the packets of the others. Generator and nodes share the machine's CPUs",
				strings.TrimSpace(string(version))),
			"8 requests are under way at a time, which psa_switch handles without loss",
			"NetCRAQ: ACKs travel up the chain hop by hop, except for dirty objects. NetChain: SEQ of 32 bits. NetCRAQ " +
				"as published: 8 versions of an object",
		}, what), nil
	}
}

func netcraqDistanceBMv2() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-distance-bmv2", Title: "Reads by the distance from the tail, on psa_switch",
		Source: netcraqDistance().Source,
		X:      netcraqDistance().X,
		Panels: netcraqDistance().Panels,
		Series: append(compared(nil), figure.Series{Name: oursDirty, Role: plot.Ours, Variant: 1},
			figure.Series{Name: netcraqPaperDirty, Role: plot.NetCRAQPaper, Variant: 1}),
		Needs: bmv2Needs,
		Quick: figure.Plan{Xs: []float64{0, 3}, Rounds: 2, Window: 500 * time.Millisecond, Budget: 120 * time.Second},
		Full: figure.Plan{
			Xs: figure.Counting(paperChain), Rounds: 5, Window: 1500 * time.Millisecond, Budget: 420 * time.Second,
		},
		Open: bmv2Figure(func(c figure.Cell) (lineKey, []bench.Work) {
			w := bench.Work{Target: paperChain - 1 - int(c.X)}
			switch c.Series {
			case oursDirty:
				c.Series, w.Dirty = ours, true
			case netcraqPaperDirty:
				c.Series, w.Dirty = netcraqPaper, true
			}
			key := onBMv2(c, paperChain)
			key.dirty = w.Dirty
			return key, []bench.Work{w}
		}),
		Results: func(o *figure.Outcome) []figure.Result {
			return []figure.Result{
				ratioTo(o, readsPerS, "clean reads at the head of 4 psa_switch, against NetChain", atHead, 4.08, 0),
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
			return append(notes, say(figure.Remark, "bmv2-work", facts{"Packets": 2*(paperChain-1) + 1}))
		},
	}
}

func netcraqLengthBMv2() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-length-bmv2", Title: "Reads at the head by the length of the chain, on psa_switch",
		Source: netcraqLength().Source,
		X:      netcraqLength().X,
		Panels: netcraqLength().Panels,
		Series: compared(nil),
		Needs:  bmv2Needs,
		Quick:  figure.Plan{Xs: []float64{4, 8}, Rounds: 2, Window: 500 * time.Millisecond, Budget: 120 * time.Second},
		Full: figure.Plan{
			Xs: []float64{4, 6, 8}, Rounds: 5, Window: 1500 * time.Millisecond, Budget: 420 * time.Second,
		},
		Open: bmv2Figure(func(c figure.Cell) (lineKey, []bench.Work) {
			return onBMv2(c, int(c.X)), []bench.Work{{}}
		}),
		Results: func(o *figure.Outcome) (all []figure.Result) {
			for _, x := range o.Xs {
				all = append(all, ratioTo(o, readsPerS,
					fmt.Sprintf("reads at the head of %g psa_switch, against NetChain", x), x, lengthPapers[x], 0))
			}
			return all
		},
		Notes: func(o *figure.Outcome) (notes []figure.Note) {
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
			return append(notes, say(figure.Remark, "bmv2-work", facts{"Packets": 2*(8-1) + 1}))
		},
	}
}
