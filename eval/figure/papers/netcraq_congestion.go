package papers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

func netcraqCongestion() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-congestion", Title: "Reads while switches of the chain are congested",
		Source: figure.Source{
			Paper: "NetCRAQ for Kubernetes, figure 3",
			Reports: "Over all combinations of clients, NetCRAQ reads 2.25 times as much as NetChain with 25 % of " +
				"the chain congested, 2.8 times with 50 %, 4.73 times with 100 %. Both introductions " +
				"state an average gain of about 130 % without its base.",
		},
		X:      figure.Axis{Label: "congested switches of the chain, %"},
		Panels: []figure.Panel{{Metric: readsPerS, Label: "reads/s, mean over clients", Unit: "reads/s"}},
		Series: compared(nil),
		Needs:  figure.Needs{Root: true},
		Quick: figure.Plan{
			Xs:     []float64{0, 50, 100},
			Rounds: 1,
			Window: 400 * time.Millisecond,
			Budget: 30 * time.Second,
		},
		Full: figure.Plan{
			Xs:     []float64{0, 25, 50, 75, 100},
			Rounds: 5,
			Window: 1200 * time.Millisecond,
			Budget: 320 * time.Second,
		},
		Open: openCongestion, Results: congestionResults, Notes: congestionNotes,
	}
}

// congestionHarness congests other nodes in every round.
type congestionHarness struct {
	harness
	lines   *keep[lineKey, *bench.Line]
	targets []int
	round   int
}

// Round says which round it is.
func (r *congestionHarness) Round(n int) { r.round = n }

func openCongestion(_ context.Context, env figure.Env) (figure.Harness, error) {
	r := &congestionHarness{lines: newLines(env), targets: []int{0, 1, 2, 3}}
	if env.Quick {
		r.targets = []int{0, paperChain - 1}
	}
	r.close, r.settings = r.lines.all, lineSettings("4")
	r.note([]string{
		"every node takes 5,000 frames/s, as a software switch does; 3,750 frames/s of other traffic " +
			"pass through a congested one. The papers don't describe their congestion",
		"the rate is the highest, to within 4.5 %, at which at most 2 % of the requests are lost. Every " +
			"node has a queue of 64 frames, empty at first, which raises rates of short measurements equally " +
			"in all protocols. A client asks the nodes one after the other. The set of congested nodes " +
			"changes from node to node, in the same order for all protocols",
	})
	return r, nil
}

// Measure measures with clients at several nodes in turn.
func (r *congestionHarness) Measure(
	ctx context.Context,
	cell figure.Cell,
	window time.Duration,
) (figure.Sample, error) {
	key := lineKey{
		protocol:   protocols[cell.Series],
		nodes:      paperChain,
		keys:       lineKeys,
		valueBytes: lineValueBytes,
		wires:      true,
	}
	line, err := r.lines.get(ctx, key)
	if err != nil {
		return figure.Sample{}, err
	}
	count := int(cell.X) * paperChain / 100
	congested := congestedNodes(r.round, count)
	sum := 0.0
	for _, target := range r.targets {
		w := bench.Work{Target: target, Congestion: &bench.Congestion{Nodes: congested()}}
		found, err := line.Throughput(ctx, w, window/time.Duration(len(r.targets)))
		if err != nil {
			r.lines.drop(key)
			return figure.Sample{}, err
		}
		sum += found.ReadsPerS
	}
	return values(map[string]float64{readsPerS: sum / float64(len(r.targets))}), nil
}

// congestedNodes draws the congested nodes of a round, the same for all protocols.
func congestedNodes(round, count int) func() []int {
	order := rand.New(rand.NewPCG(uint64(round), uint64(count)))
	return func() []int { return order.Perm(paperChain)[:count] }
}

// congestionPapers are the ratios to NetChain that are reported, by share.
var congestionPapers = map[float64]float64{25: 2.25, 50: 2.8, 100: 4.73}

// meanAgainstNetChain is the ratio of the mean rates over all shares where both were measured, or nil.
func meanAgainstNetChain(o *figure.Outcome, series string) *float64 {
	var mine, chain float64
	for _, x := range o.Xs {
		if m, c := o.Median(series, x, readsPerS), o.Median(netChain, x, readsPerS); m != nil && c != nil {
			mine, chain = mine+*m, chain+*c
		}
	}
	return figure.Ratio(&mine, &chain)
}

func congestionResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		all = append(
			all,
			versus(o, readsPerS, fmt.Sprintf("reads with %g %% of the chain congested", x), "reads/s", x, nil),
			ratioTo(o, readsPerS, fmt.Sprintf("reads with %g %% of the chain congested, against NetChain", x), x,
				congestionPapers[x], 0),
		)
	}
	all = append(all, neverBehind(o, readsPerS, "reads under congestion")...)
	return append(all, figure.Result{
		Metric: "reads, mean over the shares, against NetChain",
		Unit:   "× NetChain",
		Values: figure.Values{
			figure.NetChain:     meanAgainstNetChain(o, netChain),
			figure.NetCRAQPaper: meanAgainstNetChain(o, netcraqPaper),
			figure.Ours:         meanAgainstNetChain(o, ours),
		},
	})
}

func congestionNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		paper, ok := congestionPapers[x]
		if !ok {
			continue
		}
		for _, series := range []string{netcraqPaper, ours} {
			notes = append(notes, againstPaper(fmt.Sprintf("%g %% congested", x),
				figure.Ratio(o.Median(series, x, readsPerS), o.Median(netChain, x, readsPerS)), paper,
				series)...)
		}
	}
	return explain(notes, say(figure.Remark, "why-congestion", nil))
}
