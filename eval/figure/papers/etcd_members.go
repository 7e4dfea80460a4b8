package papers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/etcdstudy"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/eval/usl"
)

// consistencies are the series of etcd's figures, as they are called there.
var consistencies = map[string]etcdstudy.Consistency{
	"linearizable reads": etcdstudy.Linearizable,
	"serializable reads": etcdstudy.Serializable,
}

// txnPerS is the metric of etcd's figures.
const txnPerS = "transactions_per_s"

func etcdMembers() *figure.Spec {
	const paper = "Study of etcd's scalability, figures 2 and 3"
	return &figure.Spec{
		Name: "etcd-members", Title: "etcd: mixed transactions by the number of members",
		Source: figure.Source{
			Paper: paper,
			Reports: "Throughput of txn-mixed (keys of 256 bytes, 1,000 clients on 100 connections, one core for " +
				"each member) is highest with 3 members " +
				"and falls up to 11. Universal Scalability Law: λ 9,215.75, σ 0.54, κ 0.047 and λ " +
				"8,546.83, σ 0.56, κ 0.044 for the two kinds of reads; peaks at 3.13 and 3.17 members.",
		},
		X:      figure.Axis{Label: "members"},
		Panels: []figure.Panel{{Title: "txn-mixed", Metric: txnPerS, Label: "transactions/s", Unit: "transactions/s"}},
		Series: []figure.Series{
			{Name: "linearizable reads", Role: plot.Peer},
			{Name: "serializable reads", Role: plot.Peer, Variant: 2},
		},
		Needs: figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{
			Xs:     numbers(etcdstudy.QuickMembers),
			Rounds: 1,
			Window: 2 * time.Second,
			Budget: 40 * time.Second,
		},
		Full: figure.Plan{
			Xs:     numbers(etcdstudy.FullMembers),
			Rounds: 3,
			Window: 2 * time.Second,
			Budget: 270 * time.Second,
		},
		Open: openEtcdMembers, Extra: etcdLaws, Results: etcdMembersResults, Notes: etcdMembersNotes,
	}
}

// numbers are integers as places of an axis.
func numbers(all []int) []float64 {
	xs := make([]float64, len(all))
	for i, n := range all {
		xs[i] = float64(n)
	}
	return xs
}

func openEtcdMembers(_ context.Context, _ figure.Env) (figure.Harness, error) {
	clusters := &keep[int, *etcdstudy.Harness]{
		most: 1,
		open: func(ctx context.Context, members int) (*etcdstudy.Harness, error) {
			return etcdstudy.OpenHarness(ctx, etcdstudy.HarnessOptions{Members: members})
		},
		close: func(r *etcdstudy.Harness) { _ = r.Close() },
	} // of processes that end with this one
	r := &harness{close: clusters.all}
	r.note(
		[]string{
			fmt.Sprintf(
				"every member: a process with %.2f of a CPU, in clusters of every size; 1,000 clients on "+
					"100 connections, keys of 256 bytes, half of the transactions reads",
				etcdstudy.Share()),
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		cluster, err := clusters.get(ctx, int(cell.X))
		if err != nil {
			return figure.Sample{}, etcdError(err)
		}
		r.note(cluster.Settings[1:])
		c, err := cluster.TxnMixed(ctx, consistencies[cell.Series], etcdstudy.Load{Duration: window, Seed: 1})
		if err != nil {
			clusters.drop(int(cell.X))
			return figure.Sample{}, err
		}
		return values(
			map[string]float64{
				txnPerS:        c.PerSecond,
				"reads_per_s":  c.Reads,
				"writes_per_s": c.Writes,
				"p50_ms":       c.P50,
				"p99_ms":       c.P99,
				"errors":       float64(c.Errors),
				"throttled":    c.Throttled,
				"client_cpus":  c.ClientCPUs,
			},
		), nil
	}
	return r, nil
}

// etcdError explains an error of a missing etcd.
func etcdError(err error) error {
	if errors.Is(err, etcd.ErrMissing) {
		return &figure.Unable{Why: err.Error()}
	}
	return err
}

// etcdLaw fits the law to all rounds of a series; nil if there are too few places.
func etcdLaw(o *figure.Outcome, series string) *usl.Fitted {
	var cells []etcdstudy.Cell
	for _, x := range o.Xs {
		for _, m := range o.Samples(series, x) {
			cells = append(cells,
				etcdstudy.Cell{Members: int(x), Consistency: consistencies[series], PerSecond: m.Values[txnPerS]})
		}
	}
	return etcdstudy.FitMembers(cells, consistencies[series], 1).Fitted
}

func etcdLaws(o *figure.Outcome) []figure.Extra {
	var all []figure.Extra
	for i, series := range []string{"linearizable reads", "serializable reads"} {
		law := etcdLaw(o, series)
		if law == nil {
			continue
		}
		extra := figure.Extra{
			Panel: txnPerS,
			Style: plot.Style{Name: "law fitted, " + series, Role: plot.Reference, Variant: i},
		}
		for n := o.Xs[0]; n <= o.Xs[len(o.Xs)-1]; n += 0.1 {
			extra.Points = append(extra.Points, plot.Point{X: n, Y: law.At(n)})
		}
		all = append(all, extra)
	}
	return all
}

func etcdMembersResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, series := range []string{"linearizable reads", "serializable reads"} {
		paper := etcdstudy.Published[consistencies[series]]
		peak, _ := paper.Peak()
		if most := figure.Most(o.Medians(series, txnPerS)); most != nil {
			all = append(all, figure.Result{
				Metric: "members with the highest throughput measured, " + series,
				Unit:   "members",
				Values: figure.Values{figure.Paper: figure.Value(3), figure.Peer: &most.X},
			})
		}
		law := etcdLaw(o, series)
		if law == nil {
			continue
		}
		fitted := []figure.Result{
			{
				Metric: "peak of the law, " + series,
				Unit:   "members",
				Values: figure.Values{figure.Paper: &peak, figure.Peer: lawPeak(law)},
			},
			{
				Metric: "λ, " + series,
				Unit:   "transactions/s",
				Values: figure.Values{figure.Paper: &paper.Lambda, figure.Peer: &law.Lambda},
			},
			{
				Metric: "σ, " + series,
				Values: figure.Values{figure.Paper: &paper.Sigma, figure.Peer: &law.Sigma},
			},
			{
				Metric: "κ, " + series,
				Values: figure.Values{figure.Paper: &paper.Kappa, figure.Peer: &law.Kappa},
			},
		}
		if i := law.Intervals; i != nil {
			for at, bounds := range []usl.Interval{i.Peak, i.Lambda, i.Sigma, i.Kappa} {
				fitted[at].Intervals = map[figure.System]usl.Interval{figure.Peer: bounds}
			}
		}
		all = append(all, fitted...)
	}
	return all
}

func lawPeak(law *usl.Fitted) *float64 {
	if n, ok := law.Peak(); ok {
		return &n
	}
	return nil
}

func etcdMembersNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, series := range []string{"linearizable reads", "serializable reads"} {
		points := o.Medians(series, txnPerS)
		most := figure.Most(points)
		if most == nil {
			continue
		}
		last := points[len(points)-1]
		notes = append(notes,
			say(verdict(most.X == 3), "members-most", facts{"Series": series, "Members": most.X}))
		if last.X > most.X {
			notes = append(notes, say(figure.Agrees, "members-fall", facts{
				"Series":  series,
				"Members": last.X,
				"Percent": 100 * (last.Y/most.Y - 1),
			}))
		} else {
			notes = append(notes, say(figure.Differs, "members-do-not-fall", facts{"Series": series, "Members": last.X}))
		}
		if law := etcdLaw(o, series); law != nil {
			notes = append(notes, lawNote(series, law))
		}
	}
	if slices.ContainsFunc(notes, func(n figure.Note) bool { return n.Verdict == figure.Differs }) {
		notes = append(notes, say(
			figure.Remark,
			"why-members", facts{"Reason": whySizesDiffer(o)}))
	}
	return notes
}

// whySizesDiffer explains the effect of a small CPU share on the fastest size.
func whySizesDiffer(o *figure.Outcome) string {
	if most := figure.Most(o.Medians("linearizable reads", txnPerS)); most != nil && most.X > 3 {
		return sentence("why-members-throttled", nil)
	}
	return sentence("why-members-raft", nil)
}

// lawNote describes a fit and its uncertainty.
func lawNote(series string, law *usl.Fitted) figure.Note {
	certainty := sentence("law-uncertain", nil)
	if i := law.Intervals; i != nil {
		certainty = sentence("law-intervals", facts{
			"Percent": 100 * i.Confidence,
			"Lambda":  intervalText(i.Lambda, "%.0f"),
			"Sigma":   intervalText(i.Sigma, "%.3f"),
			"Kappa":   intervalText(i.Kappa, "%.4f"),
			"Peak":    intervalText(i.Peak, "%.2f"),
		})
	}
	return say(figure.Remark, "law", facts{
		"Series":    series,
		"Lambda":    law.Lambda,
		"Sigma":     law.Sigma,
		"Kappa":     law.Kappa,
		"RSquared":  law.RSquared,
		"Points":    law.Points,
		"Certainty": certainty,
	})
}

func intervalText(i usl.Interval, format string) string {
	return i.Text(func(v float64) string { return fmt.Sprintf(format, v) })
}
