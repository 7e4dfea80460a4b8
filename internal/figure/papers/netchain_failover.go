package papers

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/netcraq/netcraq/internal/baseline/failover"
	"github.com/netcraq/netcraq/internal/figure"
	"github.com/netcraq/netcraq/internal/plot"
	"github.com/netcraq/netcraq/internal/trial"
)

// Parts into which objects are divided, that a repair goes through one after the other: the places of the axis.
const (
	onePart   = 0.0
	manyParts = 1.0
)

// groups are NetChain's virtual groups, and shards ours, at the places.
var (
	failoverGroups = []int{1, 100}
	failoverShards = []int{1, 256}
)

func netchainFailover(tools Tools) *figure.Spec {
	curve := func(title, metric string, at float64) figure.Panel {
		return figure.Panel{Title: title, Metric: metric, Curve: true, At: []float64{at}, Label: metric + "/s", Unit: metric + "/s", Across: "time since the failure, s"}
	}
	return &figure.Spec{
		Name: "netchain-failover", Title: "A node is lost and replaced",
		Source: figure.Source{Paper: "NetChain (NSDI'18), figure 10, as summarised", Reports: "Failover leads queries around the failed switch at once. While a new one is filled, writes of a virtual group wait: of all objects with 1 group, " +
			"of 1 % at a time with 100 groups, so that throughput hardly falls. NetCRAQ's paper lets clients turn to another node after 50 ms and forbids writes until the new node has its copy."},
		X: figure.Axis{Label: "parts", Names: []string{"1 group or shard", "100 groups, 256 shards"}},
		Panels: []figure.Panel{
			curve("writes, 1 group or shard", "writes", onePart), curve("writes, 100 groups or 256 shards", "writes", manyParts),
			curve("reads, 1 group or shard", "reads", onePart), curve("reads, 100 groups or 256 shards", "reads", manyParts),
		},
		Rows: 2,
		Series: []figure.Series{{Name: "NetCRAQ", Role: plot.Ours}, {Name: "NetChain", Role: plot.NetChain},
			{Name: "NetCRAQ as published", Role: plot.Published, Has: func(x float64) bool { return x == onePart }}},
		Needs: figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{Xs: figure.Counting(2), Rounds: 1, Turn: time.Second, Budget: 50 * time.Second},
		Full:  figure.Plan{Xs: figure.Counting(2), Rounds: 3, Turn: 2 * time.Second, Budget: 240 * time.Second},
		Open:  func(_ context.Context, env figure.Env) (figure.Rig, error) { return openFailover(tools, env), nil }, Results: failoverResults, Notes: failoverNotes,
	}
}

func openFailover(tools Tools, env figure.Env) figure.Rig {
	r := &rig{close: func() {}}
	r.note([]string{
		fmt.Sprintf("the middle node of a chain of 3 loses its power; %d clients write and %d read, each a key of its own, with a pause of %v between two operations", failover.DefaultClients, failover.DefaultClients, failover.DefaultPause),
		fmt.Sprintf("NetChain and NetCRAQ as published: pure machines in a network of software switches, %d objects, copied with %d a second; beats, controller and clients are real", failover.DefaultObjects, failover.DefaultPerSecond),
		"NetCRAQ: XDP nodes and processes of their own for agents and controllers, in a lab (bench failover)",
	})
	r.measure = func(ctx context.Context, cell figure.Cell, turn time.Duration) (figure.Sample, error) {
		if cell.Series == "NetCRAQ" {
			return ourFailover(ctx, tools, env, failoverShards[int(cell.X)])
		}
		o := failover.Options{Protocol: failover.NetChain, Groups: failoverGroups[int(cell.X)], Quiet: turn, Seed: 1}
		if cell.Series == "NetCRAQ as published" {
			o.Protocol = failover.Published
		}
		found, err := failover.Run(ctx, o)
		if err != nil {
			return figure.Sample{}, err
		}
		s := values(map[string]float64{"write_gap_ms": found.WriteGapMs, "read_gap_ms": found.ReadGapMs, "repair_write_pause_ms": found.RepairPauseMs,
			"noticed_ms": found.NoticedMs, "repair_s": found.RepairS, "writes_during_per_s": found.WritesDuring, "writes_before_per_s": found.WritesBefore})
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
	base := filepath.Join(env.Dir, "failover")
	found, err := trial.Failover(ctx, trial.FailoverOptions{Setup: setup, Shards: []int{shards}, Victim: trial.Middle, Rounds: 1, Figure: base})
	if err != nil {
		return figure.Sample{}, err
	}
	one := found.Rounds[0]
	s := values(map[string]float64{"write_gap_ms": one.WriteGapMs, "read_gap_ms": one.ReadGapMs, "client_read_gap_ms": one.ClientReadGapMs, "read_gap_before_ms": one.QuietGapMs,
		"repair_write_pause_ms": one.RepairPauseMs, "noticed_ms": one.NoticedMs, "repair_s": one.RepairS})
	s.Curves, err = readCurves(base + ".csv")
	s.Spans = []plot.Span{{Name: "failure"}}
	return s, err
}

// readCurves reads the lines of the first panel of a figure's numbers.
func readCurves(name string) (map[string][]plot.Point, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, err
	}
	curves := make(map[string][]plot.Point)
	for _, row := range rows[1:] {
		const panel, line, x, y = 0, 1, 2, 3
		if row[panel] != rows[1][panel] {
			break
		}
		at, errX := strconv.ParseFloat(row[x], 64)
		v, errY := strconv.ParseFloat(row[y], 64)
		if err := errors.Join(errX, errY); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		curves[row[line]] = append(curves[row[line]], plot.Point{X: at, Y: v})
	}
	return curves, nil
}

func failoverResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, m := range []struct{ metric, text, unit string }{
			{"write_gap_ms", "no writes after the failure", "ms"}, {"repair_write_pause_ms", "longest pause of writes during the repair", "ms"},
			{"read_gap_ms", "no reads after the failure", "ms"}, {"repair_s", "until the chain is whole again", "s"},
		} {
			all = append(all, figure.Result{Metric: m.text + ", " + o.Spec.X.Place(x), NetChain: o.Median("NetChain", x, m.metric),
				Published: o.Median("NetCRAQ as published", x, m.metric), Ours: o.Median("NetCRAQ", x, m.metric), Unit: m.unit})
		}
	}
	return all
}

func failoverNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	pause := func(series string, x float64) *float64 { return o.Median(series, x, "repair_write_pause_ms") }
	if one, many := pause("NetChain", onePart), pause("NetChain", manyParts); one != nil && many != nil {
		notes = append(notes, say(verdict(*many < *one/3), "NetChain: the repair makes a writer wait for up to %.0f ms with 1 group, %.0f ms with 100 (the paper: groups keep most of the service).", *one, *many))
	}
	if ours, theirs := pause("NetCRAQ", onePart), pause("NetChain", onePart); ours != nil && theirs != nil {
		notes = append(notes, say(figure.Remark, "While its repair copies, NetCRAQ keeps writing: a writer waits for up to %.0f ms, where NetChain with 1 group waits for %.0f ms.", *ours, *theirs))
	}
	slower := slices.DeleteFunc(slices.Clone(o.Xs), func(x float64) bool {
		ratio := figure.Ratio(o.Median("NetCRAQ", x, "write_gap_ms"), o.Median("NetChain", x, "write_gap_ms"))
		return ratio == nil || *ratio <= 1
	})
	if len(slower) > 0 {
		notes = append(notes, say(figure.Remark, "NetChain's writes go on sooner after the failure than NetCRAQ's: its controller leads queries around a silent switch at once. NetCRAQ first waits until the node's read leases have certainly ended, because a node that only seemed dead must not answer reads any more."))
	}
	return append(notes,
		say(figure.Remark, "How long the published protocols' repair takes, and with it the pause of writes with 1 group, is the number of objects by the rate of copying, both chosen here; NetCRAQ copies as fast as it goes, and only the clients' own objects. Compare what clients can do meanwhile, not how long it lasts."),
		say(figure.Remark, "The papers leave open how a failure is noticed. Here a controller listens to beats in all three cases, and a machine that is too busy to deliver them makes it take longer."),
		say(figure.Remark, "The published protocols run as pure machines in one process, NetCRAQ as XDP programs, agents, controllers and an etcd of its own: rates before the failure are those of clients with a pause, and the same for all."))
}
