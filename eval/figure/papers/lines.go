package papers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// Names of the series that most figures compare.
const (
	ours         = "NetCRAQ"
	netChain     = "NetChain"
	netcraqPaper = "NetCRAQ as published"
)

// protocols maps names of series to the protocol of a line's nodes.
var protocols = map[string]bench.Protocol{
	ours:         bench.NetCRAQ,
	netChain:     bench.NetChain,
	netcraqPaper: bench.NetCRAQPaper,
}

// compared are the three protocols, published NetCRAQ only where it can be measured.
func compared(has func(x float64) bool) []figure.Series {
	return []figure.Series{
		{Name: ours, Role: plot.Ours},
		{Name: netChain, Role: plot.NetChain},
		{Name: netcraqPaper, Role: plot.NetCRAQPaper, Has: has},
	}
}

// Metrics of a line.
const (
	readsPerS  = "reads_per_s"
	writesPerS = "writes_per_s"
)

// lineKey is a line that stays open.
type lineKey struct {
	protocol                bench.Protocol
	nodes, keys, valueBytes int
	wires                   bool
	dirty                   bool // its objects stay dirty: it takes a while to make them so
	slots                   int  // requests of a frame, of ours; the generator for them stays loaded
	clones                  bool // of ours: the tail sends an ACK to each member, instead of one up the chain
	p4                      bool // P4 nodes on SWX, not XDP nodes
}

// Of lines where a figure does not vary it.
const (
	lineKeys       = 1000
	lineValueBytes = 16
	paperChain     = 4 // nodes in NetCRAQ's figures
	netChainChain  = 3 // nodes in NetChain's
)

// maxLines are open at once: as many as the largest figure compares.
const maxLines = 24

// newLines keeps lines open.
func newLines(env figure.Env) *keep[lineKey, *bench.Line] {
	return &keep[lineKey, *bench.Line]{
		most: maxLines,
		open: func(ctx context.Context, k lineKey) (*bench.Line, error) {
			return bench.OpenLine(ctx, bench.LineOptions{
				Protocol: k.protocol, Nodes: k.nodes, Keys: k.keys, ValueBytes: k.valueBytes, Wires: k.wires, Seq32: true,
				P4: k.p4,
				Relay: !k.clones &&
					!k.dirty, Progress: bench.Progress(env.Say), // dirty objects are those whose ACKs get lost
			})
		},
		close: func(l *bench.Line) { l.Close() },
	}
}

// lineSettings are the settings of all figures made of lines.
func lineSettings(nodes string) []string {
	return []string{
		fmt.Sprintf(
			"chain of %s XDP nodes in network namespaces, in a line: head, replicas, tail. The client is "+
				"at the node that it asks. Every packet passes through the nodes between",
			nodes),
		"XDP programs of the client make requests and check every answer. Generator and nodes share one " +
			"CPU, so a packet costs throughput at every node on its way",
		"NetCRAQ: ACKs travel up the chain hop by hop (--relay), which in a line is the path of answers, " +
			"except for dirty objects or where a figure says otherwise. Published NetCRAQ: ACKs by " +
			"multicast, as published",
		"NetChain: SEQ of 32 bits, to allow more than 65,535 writes. NetCRAQ as published: 8 versions of " +
			"an object, values of 16 bytes",
	}
}

// paceSetting says how fast requests are offered where throughput is measured.
const paceSetting = "batch_frames, beside every rate, is the number of frames that the client sends before the " +
	"nodes may work: 64, 32, 16, 8 or 4, the fastest in short probes for a protocol and its work. Where " +
	"all of them lose requests, window_requests bounds the requests in flight (else 0)"

// lineFigure opens a figure whose cells are the throughput of a line under some work.
func lineFigure(
	nodes string,
	what func(figure.Cell) (lineKey, []bench.Work),
) func(context.Context, figure.Env) (figure.Harness, error) {
	return func(_ context.Context, env figure.Env) (figure.Harness, error) {
		return openLines(env, append(lineSettings(nodes), paceSetting), what), nil
	}
}

// openLines makes the harness of a figure whose cells are the throughput of lines.
func openLines(env figure.Env, settings []string, what func(figure.Cell) (lineKey, []bench.Work)) *harness {
	lines := newLines(env)
	r := &harness{close: lines.all, settings: settings}
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		key, works := what(cell)
		line, err := lines.get(ctx, key)
		if err != nil {
			return figure.Sample{}, err
		}
		v := make(map[string]float64)
		for _, w := range works {
			if w.Slots > 1 {
				r.note([]string{bundleSetting})
			}
			found, err := line.Throughput(ctx, w, window/time.Duration(len(works)))
			if err != nil {
				lines.drop(key)
				return figure.Sample{}, err
			}
			addFound(v, w, found)
		}
		if len(works) == 1 {
			v[opsPerS] = v[readsPerS] + v[writesPerS]
		}
		return values(v), nil
	}
	return r
}

// addFound adds the results of one work. Each of several works measures another metric; of their
// losses, the largest counts.
func addFound(v map[string]float64, w bench.Work, found bench.LineFigure) {
	kind := "mixed"
	switch w.WriteShare {
	case 0:
		kind = "reads"
	case 1:
		kind = "writes"
	}
	v[kind+"_batch_frames"], v[kind+"_window_requests"] = float64(found.Batch), float64(found.Window)
	if w.WriteShare < 1 {
		v[readsPerS] = found.ReadsPerS
	}
	if w.WriteShare > 0 {
		v[writesPerS] = found.WritesPerS
		v["dirty_commits_per_s"] = float64(found.DirtyCommits) / max(found.LoadS, 1e-9)
		v["overflows_percent"] = percent(found.Overflows, found.Sent)
	}
	v["lost_percent"] = max(v["lost_percent"], percent(found.Lost, found.Sent))
}

func percent(part, all uint64) float64 { return 100 * float64(part) / max(float64(all), 1) }

// versus is a result of all three protocols.
func versus(o *figure.Outcome, metric, text, unit string, x float64, mark *figure.Mark) figure.Result {
	return figure.Result{
		Metric: text,
		Unit:   unit,
		Values: figure.Values{
			figure.NetChain:     o.Median(netChain, x, metric),
			figure.NetCRAQPaper: o.Median(netcraqPaper, x, metric),
			figure.Ours:         o.Median(ours, x, metric),
		},
		Mark: mark,
	}
}

// ratioTo is a result of how many times NetChain the others do.
func ratioTo(o *figure.Outcome, metric, text string, x, paper, mark float64) figure.Result {
	chain := o.Median(netChain, x, metric)
	r := figure.Result{
		Metric: text,
		Unit:   "× NetChain",
		Values: figure.Values{
			figure.NetChain:     figure.Ratio(chain, chain),
			figure.NetCRAQPaper: figure.Ratio(o.Median(netcraqPaper, x, metric), chain),
			figure.Ours:         figure.Ratio(o.Median(ours, x, metric), chain),
		},
	}
	if paper > 0 {
		r.Values[figure.Paper] = &paper
	}
	if mark > 0 {
		r.Mark = figure.AtLeast(mark, "NetChain", o.Median(ours, x, metric), chain)
	}
	return r
}

// neverBehind is the worst place of ours beside the published NetCRAQ, as a result with the mark
// never to be behind.
func neverBehind(o *figure.Outcome, metric, text string) []figure.Result {
	least := figure.Least(o.Ratios(ours, netcraqPaper, metric))
	if least == nil {
		return nil
	}
	mine, theirs := o.Median(ours, least.X, metric), o.Median(netcraqPaper, least.X, metric)
	return []figure.Result{
		{
			Metric: fmt.Sprintf("%s, where NetCRAQ is least ahead of the published one (%s)", text,
				o.Spec.X.Place(least.X)),
			Unit: unitOf(o, metric),
			Values: figure.Values{
				figure.NetChain:     o.Median(netChain, least.X, metric),
				figure.NetCRAQPaper: theirs,
				figure.Ours:         mine,
			},
			Mark: figure.AtLeast(1, "NetCRAQ as published", mine, theirs),
		},
	}
}

// unitOf is that of a metric that a panel shows.
func unitOf(o *figure.Outcome, metric string) string {
	at := slices.IndexFunc(o.Spec.Panels, func(p figure.Panel) bool { return p.Metric == metric })
	return o.Spec.Panels[at].Unit
}

// againstPaper compares a ratio that was measured with one that a paper reports.
func againstPaper(what string, ratio *float64, paper float64, whose string) []figure.Note {
	if ratio == nil {
		return nil
	}
	agrees := *ratio >= paper*0.8 && *ratio <= paper*1.25
	how := "less than"
	switch {
	case agrees:
		how = "about"
	case *ratio > paper:
		how = "more than"
	}
	return []figure.Note{
		say(verdict(agrees), "against-paper", facts{
			"What":  what,
			"Whose": whose,
			"Times": *ratio,
			"How":   how,
			"Paper": paper,
		}),
	}
}

// whyRatiosDiffer explains why ratios differ from the papers': by the cost of forwarding a packet
// here, relative to a read. It compares NetChain's reads at two places whose paths differ by this
// number of forwarded packets.
func whyRatiosDiffer(near, far, read *float64, more float64) figure.Note {
	if near == nil || far == nil || read == nil || *far >= *near {
		return say(figure.Remark, "why-one-cpu", nil)
	}
	pass := (1 / *far - 1 / *near) / more
	return say(figure.Remark, "why-forwarding", facts{
		"Share":   pass * *read,
		"Forward": pass * 1e6,
		"Read":    1e6 / *read,
	})
}

// explain adds a remark if any note says that something differs.
func explain(notes []figure.Note, why figure.Note) []figure.Note {
	for _, n := range notes {
		if n.Verdict == figure.Differs {
			return append(notes, why)
		}
	}
	return notes
}
