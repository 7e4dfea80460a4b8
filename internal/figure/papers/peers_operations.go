package papers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/figure"
	"github.com/netcraq/netcraq/internal/peer"
	"github.com/netcraq/netcraq/internal/plot"
)

func peersOperations() *figure.Spec {
	var names []string
	for _, op := range peer.Ops() {
		names = append(names, string(op))
	}
	xs := figure.Counting(len(names))
	only := func(x float64) bool { return peer.Ops()[int(x)] == peer.Get || peer.Ops()[int(x)] == peer.Put }
	series := slices.Insert(peerSeries(), 0, figure.Series{Name: inKernel, Role: plot.Ours, Variant: 1, Has: only})
	for _, way := range otherways(only) {
		series = append(series, way.series)
	}
	return &figure.Spec{
		Name: "peers-operations", Title: "NetCRAQ beside etcd, ZooKeeper, Redis and memcached",
		Source: figure.Source{Paper: "NetChain (NSDI'18), section 8, as summarised", Reports: "ZooKeeper: 170 µs for a read and 2,350 µs for a write, 230,000 reads/s and 27,000 writes/s on three servers; " +
			"NetChain on four Tofino switches: 9.7 µs for both, 82 million queries/s. etcd, Redis and memcached are not in the papers."},
		X: figure.Axis{Label: "operation", Names: names},
		Panels: []figure.Panel{
			{Title: "throughput, many clients", Metric: opsPerS, Bars: true, Log: true, Label: "operations/s", Unit: "operations/s"},
			{Title: "median time, one client", Metric: p50us, Bars: true, Log: true, Label: "µs", Unit: "µs"},
			{Title: "p99, one client", Metric: p99us, Bars: true, Log: true, Label: "µs", Unit: "µs"},
			{Title: "p99.9, one client", Metric: p999us, Bars: true, Log: true, Label: "µs", Unit: "µs"},
		},
		Rows:   2,
		Series: series,
		Needs:  figure.Needs{Root: true, CPUs: 2},
		Quick:  figure.Plan{Xs: xs, Rounds: 1, Turn: 800 * time.Millisecond, Budget: 70 * time.Second},
		Full:   figure.Plan{Xs: xs, Rounds: 5, Turn: 2 * time.Second, Budget: 400 * time.Second},
		Open:   openPeersOperations, Results: peersResults, Notes: peersNotes,
	}
}

func openPeersOperations(_ context.Context, env figure.Env) (figure.Rig, error) {
	stores := openPeers(env, peer.Options{})
	r := &rig{close: stores.all}
	r.note([]string{
		fmt.Sprintf("throughput: %d clients with one operation at a time; of those whose client library has many requests under way, %d clients with %d each, for get and put. Times: one client, one operation at a time", peerClients, manyClients, manyPipeline),
		redisAlone + fmt.Sprintf(": %d clients with one request at a time, each a packet of its own as with all other systems; ", peerClients) + redisOwn + ": its own load generator, with pipelines; " +
			memcachedKern + ": the generator that NetCRAQ's node is measured with, over UDP",
		inKernel + ": requests made and answers checked in the kernel (bench mix); times through one blocking UDP socket (bench latency)",
		fmt.Sprintf("1,000 keys, all alike, values of %d bytes; reads are linearizable where the system can do that", peerValueBytes),
	})
	r.measure = func(ctx context.Context, cell figure.Cell, turn time.Duration) (figure.Sample, error) {
		op := peer.Ops()[int(cell.X)]
		if cell.Series == inKernel {
			return measureInKernel(ctx, op, turn)
		}
		if sample, ok, err := measureOther(ctx, stores, cell, op, turn); ok {
			return sample, err
		}
		s, err := stores.get(ctx, cell.Series)
		if err != nil {
			return figure.Sample{}, err
		}
		r.noteSettings(cell.Series, s)
		return measurePeer(ctx, s, op, 0, turn)
	}
	return r, nil
}

// paperZooKeeper is what NetChain's paper measured of ZooKeeper, by operation.
var paperZooKeeper = map[peer.Op]struct{ perS, us float64 }{peer.Get: {230e3, 170}, peer.Put: {27e3, 2350}}

func peersResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		op := peer.Ops()[int(x)]
		for _, other := range []string{"etcd", "ZooKeeper", "Redis", "memcached"} {
			theirs, theirTime := o.Median(other, x, opsPerS), o.Median(other, x, p50us)
			rate, times := figure.Result{Unit: "operations/s", Peer: theirs}, figure.Result{Unit: "µs", Peer: theirTime}
			if paper, ok := paperZooKeeper[op]; ok && other == "ZooKeeper" {
				rate.Paper, times.Paper = figure.Value(paper.perS), figure.Value(paper.us)
			}
			for _, series := range []string{inKernel, "NetCRAQ"} {
				if series == inKernel && o.Median(series, x, opsPerS) == nil {
					continue
				}
				how := "client libraries on both sides"
				if series == inKernel {
					how = "ours without a client library"
				}
				rate.Ours, times.Ours = o.Median(series, x, opsPerS), o.Median(series, x, p50us)
				rate.Metric, times.Metric = fmt.Sprintf("%s against %s, %s", op, other, how), fmt.Sprintf("median time of a %s against %s, %s", op, other, how)
				rate.Mark, times.Mark = peerMarks(op, other, rate.Ours, theirs, times.Ours, theirTime)
				all = append(all, rate, times)
			}
		}
		all = append(all, otherResults(o, x, op)...)
	}
	return all
}

// otherResults compare what is not the client library's on either side.
func otherResults(o *figure.Outcome, x float64, op peer.Op) []figure.Result {
	var all []figure.Result
	for _, way := range otherways(nil) {
		mine, theirs := o.Median(inKernel, x, opsPerS), o.Median(way.series.Name, x, opsPerS)
		if mine == nil || theirs == nil {
			continue
		}
		r := figure.Result{Metric: fmt.Sprintf("%s against %s, ours without a client library", op, way.series.Name), Unit: "operations/s", Ours: mine, Peer: theirs}
		r.Mark, _ = peerMarks(op, way.series.Name, mine, theirs, nil, nil)
		all = append(all, r)
	}
	return all
}

// peerMarks are what reads are to reach; other operations have no marks.
func peerMarks(op peer.Op, other string, ours, theirs, ourTime, theirTime *float64) (rate, times *figure.Mark) {
	switch {
	case op != peer.Get:
		return nil, nil
	case other == "etcd" || other == "ZooKeeper":
		return figure.AtLeast(100, other, ours, theirs), figure.AtMost(0.1, other, ourTime, theirTime)
	}
	return figure.AtLeast(5, other, ours, theirs), nil
}

func peersNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		op := peer.Ops()[int(x)]
		if paper, ok := paperZooKeeper[op]; ok {
			if mine := o.Median("ZooKeeper", x, opsPerS); mine != nil {
				notes = append(notes, say(verdict(*mine > paper.perS/3 && *mine < paper.perS*3), "%s: ZooKeeper does %s a second here, %s in the paper, with three servers of 16 cores. Here servers and clients share %d CPUs.", op, number(*mine), number(paper.perS), o.Header.Machine.CPUs))
			}
		}
		for _, other := range []string{"etcd", "ZooKeeper", "Redis", "memcached"} {
			ratio := figure.Ratio(o.Median("NetCRAQ", x, opsPerS), o.Median(other, x, opsPerS))
			if ratio != nil && *ratio < 1 {
				notes = append(notes, say(figure.Differs, "%s: %s is faster, %s times as many a second as NetCRAQ through client libraries.", op, other, number(1 / *ratio)))
			}
		}
	}
	return append(notes,
		say(figure.Remark, "Two comparisons are shown. Through client libraries, both sides pay for a client on sockets, which shares the two CPUs with the servers and often is what limits. With requests made in the kernel our client costs next to nothing, and theirs still costs what it costs: that compares what the systems, as they are used, leave of the machine, not what a node can do beside what a server can do."),
		say(figure.Remark, "Redis and memcached are single servers and keep no copies: they answer without asking anybody. memcached is asked over UDP, Redis over TCP."))
}
