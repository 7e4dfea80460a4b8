package papers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/failover"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/internal/verify/chaos"
)

// Parts into which objects are divided, that a repair goes through one after the other: the places
// of the axis.
const (
	onePart   = 0.0
	manyParts = 1.0
)

// groups are NetChain's virtual groups, and shards ours, at the places.
var (
	failoverGroups = []int{1, 100}
	failoverShards = []int{1, 256}
)

// Metrics of the figure, alike for all protocols. Gaps are those of the one client that waited longest.
const (
	writeGap    = "write_gap_ms"          // from the failure until clients are led around it
	readGap     = "read_gap_ms"           // of clients that ask any node that answers reads, the lost one too
	writesKept  = "writes_kept_percent"   // while objects are copied, of those before the failure
	repairPause = "repair_write_pause_ms" // from then on
	repairTime  = "repair_s"
	copyTime    = "copy_s" // of that
)

func netchainFailover(tools Tools) *figure.Spec {
	curve := func(title, metric string, at float64) figure.Panel {
		return figure.Panel{
			Title:  title,
			Metric: metric,
			Curve:  true,
			At:     []float64{at},
			Label:  metric + "/s",
			Unit:   metric + "/s",
			Across: "time since the failure, s",
		}
	}
	return &figure.Spec{
		Name: "netchain-failover", Title: "A node is lost and replaced",
		Source: figure.Source{
			Paper: "NetChain (NSDI'18), figure 10, as summarised",
			Reports: "Failover routes queries around the failed switch at once. While a new switch is filled, " +
				"writes of a virtual group wait: of all objects with 1 group, " +
				"of 1 % at a time with 100 groups, which hardly reduces throughput. In NetCRAQ's paper " +
				"clients try another node after 50 ms, and writes are forbidden until the new node has " +
				"its copy.",
		},
		X: figure.Axis{Label: "parts", Names: []string{"1 group or shard", "100 groups, 256 shards"}},
		Panels: []figure.Panel{
			curve("writes, 1 group (its copy rate is assumed) or shard", "writes",
				onePart), curve("writes, 100 groups or 256 shards", "writes", manyParts),
			curve("reads, 1 group or shard", "reads",
				onePart), curve("reads, 100 groups or 256 shards", "reads", manyParts),
		},
		Rows: 2,
		Series: []figure.Series{{Name: ours, Role: plot.Ours}, {Name: netChain, Role: plot.NetChain},
			{Name: netcraqPaper, Role: plot.NetCRAQPaper, Has: func(x float64) bool { return x == onePart }}},
		Needs:   figure.Needs{Root: true, CPUs: 2},
		Quick:   figure.Plan{Xs: figure.Counting(2), Rounds: 1, Window: time.Second, Budget: 50 * time.Second},
		Full:    figure.Plan{Xs: figure.Counting(2), Rounds: 3, Window: 2 * time.Second, Budget: 160 * time.Second},
		Open:    func(_ context.Context, env figure.Env) (figure.Harness, error) { return openFailover(tools, env), nil },
		Results: failoverResults, Notes: failoverNotes,
	}
}

func openFailover(tools Tools, env figure.Env) figure.Harness {
	r := &harness{close: func() {}}
	r.note([]string{
		fmt.Sprintf(
			"the middle node of a chain of 3 loses its power; %d clients write and %d read, each one "+
				"key, with a pause of %v between two operations",
			failover.DefaultClients, failover.DefaultClients, failover.DefaultPause),
		fmt.Sprintf(
			"%d objects of 16 bytes are stored in all cases, of which the new node gets those that the lost one had",
			failover.DefaultObjects),
		fmt.Sprintf(
			"NetChain and NetCRAQ as published: pure state machines in a network of software switches, "+
				"with real heartbeats, controller and clients. The papers do not state the copy rate. "+
				"Assumed: "+
				"that their control plane copies %d objects a second, and that the recovery begins a "+
				"window after the failover",
			failover.DefaultPerSecond,
		),
		"NetCRAQ: XDP nodes, agents and controllers in a lab (bench failover --objects). Nothing about " +
			"the repair is assumed. A copy shorter than 50 ms is too short to count writes",
		"readers: those of NetCRAQ as published start at different nodes of the chain and try the next " +
			"after 50 ms. NetCRAQ's ask a random node each time. NetChain's ask the tail, which answers all " +
			"reads",
	})
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		if cell.Series == ours {
			return ourFailover(ctx, tools, env, failoverShards[int(cell.X)])
		}
		o := failover.Options{Protocol: failover.NetChain, Groups: failoverGroups[int(cell.X)], Quiet: window, Seed: 1}
		if cell.Series == netcraqPaper {
			o.Protocol = failover.NetCRAQPaper
		}
		found, err := failover.Run(ctx, o)
		if err != nil {
			return figure.Sample{}, err
		}
		s := values(
			map[string]float64{
				writeGap:     found.WriteGapMs,
				readGap:      found.ReadGapMs,
				repairPause:  found.RepairPauseMs,
				repairTime:   found.RepairS,
				"noticed_ms": found.NoticedMs,
			},
		)
		countKept(s.Values, found.RepairS-found.RecoveryAtS, found.WritesDuring, found.WritesBefore)
		s.Curves, s.Spans = make(map[string][]plot.Point), found.Panel.Spans
		for _, line := range found.Panel.Lines {
			s.Curves[line.Name] = line.Points
		}
		return s, nil
	}
	return r
}

// ourFailover measures our own cluster.
func ourFailover(ctx context.Context, tools Tools, env figure.Env, shards int) (figure.Sample, error) {
	if tools.Cluster == nil {
		return figure.Sample{}, errors.New("there is nothing to make a cluster with")
	}
	setup, err := tools.Cluster(env.Say)
	if err != nil {
		return figure.Sample{}, err
	}
	found, err := chaos.Failover(ctx, chaos.FailoverOptions{
		Setup: setup, Shards: []int{shards}, Objects: failover.DefaultObjects, Victim: chaos.Middle, Rounds: 1,
	})
	if err != nil {
		return figure.Sample{}, err
	}
	one := found.Rounds[0]
	s := values(
		map[string]float64{
			writeGap:                       one.ClientWriteGapMs,
			readGap:                        one.ClientReadGapMs,
			repairPause:                    one.ClientPauseMs,
			repairTime:                     one.RepairS,
			"noticed_ms":                   one.NoticedMs,
			"copied_mb":                    one.CopiedMB,
			"survivors_read_gap_ms":        one.ReadGapMs,
			"survivors_read_gap_before_ms": one.QuietGapMs,
		},
	)
	countKept(s.Values, one.CopyS, one.WritesDuringPerS, one.WritesBeforePerS)
	s.Curves, s.Spans = curvesOf(&found.Curves[0]), []plot.Span{{Name: "failure"}}
	return s, nil
}

// countKept compares the rate of writes during a copy with that before, unless the copy was too
// short to count in: each client had begun some five writes at most, or a busy machine had the whole
// of it told late.
func countKept(v map[string]float64, copyS, during, before float64) {
	const shortest = 5 * failover.DefaultPause
	if v[copyTime] = copyS; copyS >= shortest.Seconds() && before > 0 {
		v[writesKept] = 100 * during / before
	}
}

// curvesOf are the lines of a round's curves, over seconds.
func curvesOf(c *chaos.Curves) map[string][]plot.Point {
	curves := make(map[string][]plot.Point)
	for _, line := range c.Lines {
		for _, r := range line.Rates {
			curves[line.Name] = append(curves[line.Name], plot.Point{X: r.At.Seconds(), Y: r.PerSecond})
		}
	}
	return curves
}

// failoverResults omit values that depend on assumptions about the published protocols: the time
// of a repair, and of operations that wait for it, is their number of objects divided by an
// assumed rate.
func failoverResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, m := range []struct {
			metric, text, unit string
			assumed            bool
		}{
			{writeGap, "longest time of a client without a write after the failure", "ms", false},
			{readGap, "longest gap of a client between reads after the failure (NetChain's ask the tail, which " +
				"does not fail)", "ms", false},
			{writesKept, "writes while the repair copies, of those before", "%", false},
			{repairPause, "longest pause of a client's writes during the repair (the others' is assumed: see the " +
				"notes)", "ms", true},
			{repairTime, "until the chain is whole again (the others' is assumed: see the notes)", "s", true},
		} {
			r := figure.Result{
				Metric: m.text + ", " + o.Spec.X.Place(x),
				Unit:   m.unit,
				Values: figure.Values{figure.Ours: o.Median(ours, x, m.metric)},
			}
			if !m.assumed {
				r.Values[figure.NetChain] = o.Median(netChain, x, m.metric)
				r.Values[figure.NetCRAQPaper] = o.Median(netcraqPaper, x, m.metric)
			}
			all = append(all, r)
		}
	}
	return all
}

func failoverNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	kept := func(series string, x float64) *float64 { return o.Median(series, x, writesKept) }
	if one, many := kept(netChain, onePart), kept(netChain, manyParts); one != nil && many != nil {
		notes = append(notes, say(verdict(*one < 10 && *many > 90), "failover-netchain", facts{
			"One":  *one,
			"Many": *many,
		}))
	}
	if theirs := kept(netcraqPaper, onePart); theirs != nil {
		notes = append(notes, say(verdict(*theirs < 10), "failover-published", facts{"Percent": *theirs}))
	}
	for _, x := range o.Xs {
		if mine, long := kept(ours, x), o.Median(ours, x, copyTime); mine != nil && long != nil {
			notes = append(notes, say(figure.Remark, "failover-ours", facts{
				"Place":   o.Spec.X.Place(x),
				"Seconds": *long,
				"Percent": *mine,
			}))
		}
	}
	notes = append(notes, soonerNotes(o)...)
	return append(
		append(notes, assumedNotes(o)...),
		say(figure.Remark, "failover-detection", nil),
		say(figure.Remark, "failover-processes", nil),
	)
}

// soonerNotes say whose clients go on sooner than ours, and why.
func soonerNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, m := range []struct{ metric, series, what, why string }{
		{writeGap, netChain, "writes", sentence("sooner-writes-netchain", nil)},
		{writeGap, netcraqPaper, "writes", sentence("sooner-writes-published", nil)},
		{readGap, netChain, "reads", sentence("sooner-reads-netchain", nil)},
		{readGap, netcraqPaper, "reads", sentence("sooner-reads-published", nil)},
	} {
		if most := figure.Most(o.Ratios(ours, m.series, m.metric)); most != nil && most.Y > 1 {
			notes = append(notes, say(figure.Remark, "sooner", facts{
				"Place":  o.Spec.X.Place(most.X),
				"What":   m.what,
				"Series": m.series,
				"Theirs": *o.Median(m.series, most.X, m.metric),
				"Ours":   *o.Median(ours, most.X, m.metric),
				"Reason": m.why,
			}))
		}
	}
	return notes
}

// assumedNotes report the measurements that the table omits, and the assumptions behind them.
func assumedNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		for _, series := range []string{netChain, netcraqPaper} {
			if pause, whole := o.Median(series, x, repairPause), o.Median(series, x, repairTime); pause != nil &&
				whole != nil {
				notes = append(notes, say(figure.Remark, "failover-assumed", facts{
					"Series":  series,
					"Place":   o.Spec.X.Place(x),
					"Pause":   *pause,
					"Seconds": *whole,
					"Objects": failover.DefaultObjects,
					"Rate":    failover.DefaultPerSecond,
				}))
			}
		}
	}
	return notes
}
