package papers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/sim"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// lossProtocols are the simulated protocols by the name of their series.
var lossProtocols = map[string]sim.Protocol{
	"NetChain, 16-bit SEQ": sim.NetChain, "NetChain, 32-bit SEQ": sim.NetChain32,
	"NetCRAQ as published": sim.NetCRAQPaper, "NetCRAQ": sim.Ours,
}

// violations is the part of the seeds that show one.
const violations = "seeds_percent"

func publishedLosses() *figure.Spec {
	kinds := sim.Kinds()
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = lossNames[k]
	}
	xs := figure.Counting(len(kinds))
	return &figure.Spec{
		Name: "published-losses", Title: "What the published protocols lose, in simulation",
		Source: figure.Source{
			Paper: "no figure; the protocols of NetChain and of both NetCRAQ papers",
			Reports: "All three papers promise strong consistency. None shows what lost, repeated or late packets " +
				"do to consistency; NetCRAQ's papers name the 16 bits of NetChain's SEQ a limit.",
		},
		X:      figure.Axis{Label: "kind of violation", Names: names},
		Panels: []figure.Panel{{Metric: violations, Bars: true, Label: "seeds that show it, %", Unit: "%"}},
		Series: []figure.Series{
			{Name: "NetChain, 16-bit SEQ", Role: plot.NetChain},
			{Name: "NetChain, 32-bit SEQ", Role: plot.NetChain, Variant: 1},
			{Name: "NetCRAQ as published", Role: plot.NetCRAQPaper},
			{Name: "NetCRAQ", Role: plot.Ours},
		},
		Quick: figure.Plan{Xs: xs, Rounds: 1, Window: time.Second, Budget: 20 * time.Second},
		Full:  figure.Plan{Xs: xs, Rounds: 5, Window: 4 * time.Second, Budget: 40 * time.Second},
		Open:  openLosses, Results: lossResults, Notes: lossNotes,
	}
}

// lossNames are the kinds in few words.
var lossNames = map[sim.Kind]string{
	sim.LostWrite: "lost write", sim.AppliedTwice: "applied twice", sim.StaleRead: "stale read",
	sim.Stuck: "stuck dirty", sim.Wrap: "SEQ wrap", sim.Disorder: "no order",
}

// lossReasons say how such a thing comes about where the published protocols let it.
var lossReasons = map[sim.Kind]string{
	sim.LostWrite:    sentence("loss-reason-lost-write", nil),
	sim.AppliedTwice: sentence("loss-reason-applied-twice", nil),
	sim.StaleRead:    sentence("loss-reason-stale-read", nil),
	sim.Stuck:        sentence("loss-reason-stuck", nil),
	sim.Wrap:         sentence("loss-reason-wrap", nil),
	sim.Disorder:     sentence("loss-reason-disorder", nil),
}

// lossHarness runs seeds. One run shows violations of all kinds, so its result is kept for the
// round.
type lossHarness struct {
	seeds  int // of one round
	round  int
	found  map[sim.Protocol]*lossRound // in this round
	shown  map[figure.Cell]bool        // with a counterexample
	runner *sim.Runner
}

// lossRound is the result of one round of seeds with one protocol.
type lossRound struct {
	seeds map[sim.Kind][]uint64 // that show it
	tried int
}

func openLosses(_ context.Context, env figure.Env) (figure.Harness, error) {
	r := &lossHarness{seeds: 2400, shown: make(map[figure.Cell]bool), runner: sim.NewRunner()}
	if env.Quick {
		r.seeds = 800
	}
	r.Round(0)
	return r, nil
}

// Round says which round it is: each has seeds of its own.
func (r *lossHarness) Round(n int) { r.round, r.found = n, make(map[sim.Protocol]*lossRound) }

// Measure runs the seeds of the round, unless they ran for another kind.
func (r *lossHarness) Measure(ctx context.Context, cell figure.Cell, _ time.Duration) (figure.Sample, error) {
	protocol, kind := lossProtocols[cell.Series], sim.Kinds()[int(cell.X)]
	found := r.found[protocol]
	if found == nil {
		var err error
		if found, err = r.run(ctx, protocol); err != nil {
			return figure.Sample{}, err
		}
		r.found[protocol] = found
	}
	seeds := found.seeds[kind]
	s := values(
		map[string]float64{violations: 100 * float64(len(seeds)) / float64(found.tried), "seeds": float64(found.tried)})
	if len(seeds) == 0 {
		return s, nil
	}
	s.Values["first_seed"] = float64(seeds[0])
	if r.shown[cell] {
		return s, nil
	}
	examples, err := r.runner.Counterexamples(ctx,
		&sim.Total{Protocol: protocol, Kinds: map[sim.Kind][]uint64{kind: seeds}})
	if err != nil {
		return figure.Sample{}, err
	}
	r.shown[cell] = true
	for _, e := range examples {
		s.Texts = append(s.Texts, lossText(cell.Series, e))
	}
	return s, nil
}

// lossText is a counterexample as text. Its title names protocol, kind and seed, and the result of
// ours with the same seed.
func lossText(series string, e *sim.Counterexample) figure.Text {
	return figure.Text{
		Name:  strings.TrimSuffix(e.Name(), ".txt"),
		Title: fmt.Sprintf("%s: %s (seed %d); NetCRAQ, same seed: %s.", series, e.Kind.Title(), e.Seed, e.Ours()),
		Text:  e.String(),
	}
}

func (r *lossHarness) run(ctx context.Context, protocol sim.Protocol) (*lossRound, error) {
	l := &lossRound{seeds: make(map[sim.Kind][]uint64)}
	for i := range r.seeds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seed := uint64(r.round*r.seeds + i + 1)
		c := sim.Draw(protocol, seed)
		result, err := r.runner.Run(c)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		verdict, err := r.runner.Judge(c, result)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		for _, v := range verdict.Violations {
			l.seeds[v.Kind] = append(l.seeds[v.Kind], seed)
		}
		l.tried++
	}
	return l, nil
}

func (r *lossHarness) Settings() []string {
	return []string{
		fmt.Sprintf(
			"%d seeds a round. A seed defines a workload of 2 to 4 clients on 1 or 2 keys, a chain of 3 "+
				"or 4 nodes, and the fate of the n-th packet of every link, the same for all protocols",
			r.seeds),
		"up to 15 % of the packets lost, 10 % repeated, 10 % late, and bursts in which a link loses all " +
			"packets. One seed in eight begins shortly before the wrap of a 16-bit SEQ",
	}
}

func (r *lossHarness) Close() {}

func lossResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		all = append(all, figure.Result{
			Metric: "seeds with: " + string(sim.Kinds()[int(x)]),
			Unit:   "%",
			Values: figure.Values{
				figure.NetChain:     o.Median("NetChain, 16-bit SEQ", x, violations),
				figure.NetCRAQPaper: o.Median("NetCRAQ as published", x, violations),
				figure.Ours:         o.Median("NetCRAQ", x, violations),
			},
		})
	}
	return all
}

func lossNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, s := range o.Spec.Series {
		shown := 0
		for _, x := range o.Xs {
			if seed := firstSeed(o, s.Name, x); seed > 0 {
				shown++
				kind := sim.Kinds()[int(x)]
				notes = append(
					notes,
					say(
						figure.Differs,
						"loss-shown", facts{
							"Series":   s.Name,
							"Kind":     kind,
							"Reason":   lossReasons[kind],
							"Seed":     seed,
							"Protocol": lossProtocols[s.Name],
						}),
				)
			}
		}
		if shown == 0 {
			notes = append(notes, say(figure.Agrees, "loss-none", facts{"Series": s.Name}))
		}
	}
	return append(
		notes,
		say(figure.Remark, "loss-examples", nil),
		say(figure.Remark, "loss-wrap", nil),
	)
}

// firstSeed is the lowest seed that shows a violation; 0: none does.
func firstSeed(o *figure.Outcome, series string, x float64) int {
	first := 0
	for _, m := range o.Samples(series, x) {
		if seed := int(m.Values["first_seed"]); seed > 0 && (first == 0 || seed < first) {
			first = seed
		}
	}
	return first
}
