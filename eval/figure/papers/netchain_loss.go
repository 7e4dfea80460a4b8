package papers

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
	"github.com/netcraq/netcraq/eval/plot"
)

// lossPercents are the losses of every link, at the places of the axis.
var lossPercents = []float64{0, 0.1, 1, 5, 10}

// lossySystems are the systems by the name of their series.
var lossySystems = map[string]string{
	"NetCRAQ": peer.NetCRAQ, "NetChain": peer.NetChain, "etcd": peer.Etcd, "ZooKeeper": peer.ZooKeeper,
}

// lossClients have one operation at a time each: the same work for all.
const lossClients = 16

func netchainLoss() *figure.Spec {
	var names []string
	for _, percent := range lossPercents {
		names = append(names, fmt.Sprintf("%g %%", percent))
	}
	xs := figure.Counting(len(names))
	return &figure.Spec{
		Name: "netchain-loss", Title: "Links that lose packets",
		Source: figure.Source{
			Paper:   "NetChain (NSDI'18), throughput against loss rate, as summarised",
			Reports: "NetChain is more tolerant of packet loss than ZooKeeper.",
		},
		X: figure.Axis{Label: "packets lost on every link", Names: names},
		Panels: []figure.Panel{
			{
				Title:  "reads answered, saturated",
				Metric: saturatedReads,
				Bars:   true,
				Log:    true,
				Label:  "reads/s",
				Unit:   "reads/s",
				Only:   []string{ours, netChain, netcraqPaper},
			},
			{
				Title:  "writes answered, saturated",
				Metric: saturatedWrites,
				Bars:   true,
				Log:    true,
				Label:  "writes/s",
				Unit:   "writes/s",
				Only:   []string{ours, netChain, netcraqPaper},
			},
			{
				Title:  fmt.Sprintf("reads, %d clients that wait", lossClients),
				Metric: "get_per_s",
				Bars:   true,
				Log:    true,
				Label:  "reads/s",
				Unit:   "reads/s",
			},
			{
				Title:  fmt.Sprintf("writes, %d clients that wait", lossClients),
				Metric: "put_per_s",
				Bars:   true,
				Log:    true,
				Label:  "writes/s",
				Unit:   "writes/s",
			},
			{Title: "p99 of a read", Metric: "get_p99_us", Bars: true, Log: true, Label: "µs", Unit: "µs"},
			{Title: "p99 of a write", Metric: "put_p99_us", Bars: true, Log: true, Label: "µs", Unit: "µs"},
		},
		Rows: 3,
		Series: []figure.Series{
			{Name: "NetCRAQ", Role: plot.Ours},
			{Name: "NetChain", Role: plot.NetChain},
			{Name: netcraqPaper, Role: plot.NetCRAQPaper, Has: saturatedLoss},
			{Name: "etcd", Role: plot.Peer},
			{Name: "ZooKeeper", Role: plot.Peer, Variant: 1},
		},
		Needs: figure.Needs{Root: true, CPUs: 2},
		Quick: figure.Plan{Xs: xs, Rounds: 1, Window: time.Second, Budget: 40 * time.Second},
		Full:  figure.Plan{Xs: xs, Rounds: 3, Window: 4 * time.Second, Budget: 310 * time.Second},
		Open:  openLinkLoss, Results: linkLossResults, Notes: linkLossNotes,
	}
}

func openLinkLoss(_ context.Context, env figure.Env) (figure.Harness, error) {
	stores := &keep[string, peer.Store]{
		most: len(lossySystems),
		open: func(ctx context.Context, series string) (peer.Store, error) {
			s, err := peer.Open(ctx, lossySystems[series], peer.Options{Lossy: true, Progress: env.Say})
			return s, peerError(err)
		},
		close: func(s peer.Store) { _ = s.Close() },
	}
	lines := newLines(env)
	r := &harness{close: func() { stores.all(); lines.all() }, settings: []string{
		"saturated: " + lineSettings(fmt.Sprint(netChainChain))[0] + "; XDP programs make as many requests as " +
			"nodes and generator on one CPU can handle, without retries; every link loses packets in " +
			"both directions",
		paceSetting,
	}}
	r.note(
		[]string{
			fmt.Sprintf(
				"clients that wait: %d with one operation at a time, 1,000 keys, values of %d bytes; "+
					"half of the time reads, half writes. XDP programs drop packets at random on every link, "+
					"in both directions, also between servers",
				lossClients, peerValueBytes),
		},
	)
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		return measureLoss(ctx, r, stores, lines, cell, window)
	}
	return r, nil
}

// measureLoss saturates the chain, if the series is one, and measures the client's operations.
func measureLoss(
	ctx context.Context,
	r *harness,
	stores *keep[string, peer.Store],
	lines *keep[lineKey, *bench.Line],
	cell figure.Cell,
	window time.Duration,
) (figure.Sample, error) {
	percent, v := lossPercents[int(cell.X)], make(map[string]float64)
	saturated := time.Duration(saturationWindow * float64(window))
	if protocol, ok := protocols[cell.Series]; ok && saturatedLoss(cell.X) {
		found, err := measureSaturation(ctx, lines, protocol, percent, saturated)
		if err != nil {
			return figure.Sample{}, err
		}
		maps.Copy(v, found)
	}
	if _, ok := lossySystems[cell.Series]; !ok {
		return values(v), nil
	}
	s, err := stores.get(ctx, cell.Series)
	if err != nil {
		return figure.Sample{}, err
	}
	r.noteSettings(cell.Series, s)
	found, err := measureLinkLoss(ctx, s, percent, window-saturated)
	if err != nil {
		stores.drop(cell.Series)
		return figure.Sample{}, err
	}
	maps.Copy(v, found)
	return values(v), nil
}

// measureLinkLoss measures reads and writes of a store whose keys are there before packets get lost.
func measureLinkLoss(
	ctx context.Context,
	s peer.Store,
	percent float64,
	window time.Duration,
) (map[string]float64, error) {
	load := peer.Load{
		Clients:    lossClients,
		ValueBytes: peerValueBytes,
		Duration:   window / 2,
		Timeout:    peerPatience,
		Seed:       1,
	}
	v := make(map[string]float64)
	for _, op := range []peer.Op{peer.Get, peer.Put} {
		load.Op = op
		if err := s.SetLoss(0); err != nil {
			return nil, err
		}
		if err := peer.Fill(ctx, s, load); err != nil {
			return nil, err
		}
		if err := s.SetLoss(percent); err != nil {
			return nil, err
		}
		found, err := peer.Run(ctx, s, load)
		if err != nil {
			return nil, err
		}
		name := string(op)
		v[name+"_per_s"], v[name+"_p50_us"], v[name+"_p99_us"], v[name+"_errors"] = found.PerSecond,
			found.P50us, found.P99us, float64(
				found.Errors)
	}
	return v, s.SetLoss(0)
}

// lossAsked is the place of the loss that the comparison is asked for: 5 %.
const lossAsked = 3.0

func linkLossResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, m := range []struct{ metric, text, unit string }{
			{"get_per_s", "reads", "reads/s"}, {"get_p99_us", "p99 of a read", "µs"},
			{"put_per_s", "writes", "writes/s"}, {"put_p99_us", "p99 of a write", "µs"},
		} {
			all = append(
				all,
				figure.Result{
					Metric: fmt.Sprintf("%s at %s loss, beside etcd", m.text, o.Spec.X.Place(x)),
					Unit:   m.unit,
					Values: figure.Values{
						figure.NetChain: o.Median("NetChain", x, m.metric),
						figure.Ours:     o.Median("NetCRAQ", x, m.metric),
						figure.Peer:     o.Median("etcd", x, m.metric),
					},
				},
			)
		}
	}
	return append(all, saturationResults(o)...)
}

func linkLossNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	kept := func(series string) *float64 {
		return figure.Ratio(o.Median(series, lossAsked, "put_per_s"), o.Median(series, 0, "put_per_s"))
	}
	chain, zookeeper := kept("NetChain"), kept("ZooKeeper")
	if chain != nil && zookeeper != nil {
		notes = append(notes, say(verdict(*chain > *zookeeper), "loss-kept", facts{
			"NetChain":  100 * *chain,
			"ZooKeeper": 100 * *zookeeper,
		}))
	}
	for _, other := range []string{"NetChain", "etcd", "ZooKeeper"} {
		reads := figure.Ratio(o.Median("NetCRAQ", lossAsked, "get_per_s"), o.Median(other, lossAsked, "get_per_s"))
		writes := figure.Ratio(o.Median("NetCRAQ", lossAsked, "put_per_s"), o.Median(other, lossAsked, "put_per_s"))
		if reads != nil && writes != nil {
			notes = append(
				notes,
				say(figure.Remark, "loss-times", facts{"Reads": *reads, "Writes": *writes, "Other": other}),
			)
		}
	}
	for _, m := range []struct{ metric, what string }{{"get_per_s", "reads"}, {"put_per_s", "writes"}} {
		if least := figure.Least(o.Ratios("NetCRAQ", "NetChain", m.metric)); least != nil && least.Y < 1 {
			notes = append(
				notes,
				say(figure.Remark, "loss-least", facts{"Place": o.Spec.X.Place(least.X), "Times": least.Y, "What": m.what}),
			)
		}
	}
	return append(
		append(notes, saturationNotes(o)...),
		say(figure.Remark, "loss-retries", nil),
		say(figure.Remark, "loss-datagrams", nil),
		say(figure.Remark, "loss-repeats", nil),
	)
}
