package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/internal/figure"
	"github.com/netcraq/netcraq/internal/peer"
)

func peersOperations() *figure.Spec {
	var names []string
	for _, op := range peer.Ops() {
		names = append(names, string(op))
	}
	xs := figure.Counting(len(names))
	series := peerSeries()
	for _, way := range otherways() {
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
		Quick:  figure.Plan{Xs: xs, Rounds: 1, Turn: 800 * time.Millisecond, Budget: 55 * time.Second},
		Full:   figure.Plan{Xs: xs, Rounds: 5, Turn: 2 * time.Second, Budget: 290 * time.Second},
		Open:   openPeersOperations, Results: peersResults, Notes: peersNotes,
	}
}

func openPeersOperations(_ context.Context, env figure.Env) (figure.Rig, error) {
	stores := openPeers(env, peer.Options{})
	r := &rig{close: stores.all}
	r.note([]string{
		"throughput through client libraries: with as many clients, and requests under way where the library can have several, as give most, which is looked for each time. Times: one client, one operation at a time",
		"other ways: requests made in the kernel, of NetCRAQ and memcached; NetCRAQ's with one request a frame, and with as many independent ones as fit (bundles); Redis without pipelines, each request a packet of its own, and redis-benchmark with pipelines. etcd and ZooKeeper have none",
		fmt.Sprintf("1,000 keys, all alike, values of %d bytes; reads are linearizable where the system can do that", peerValueBytes),
	})
	r.measure = func(ctx context.Context, cell figure.Cell, turn time.Duration) (figure.Sample, error) {
		op := peer.Ops()[int(cell.X)]
		if sample, ok, err := measureOther(ctx, stores, cell, op, turn/2); ok {
			return sample, err
		}
		s, err := stores.get(ctx, cell.Series)
		if err != nil {
			return figure.Sample{}, err
		}
		r.noteSettings(cell.Series, s)
		return measurePeer(ctx, s, op, turn)
	}
	return r, nil
}

// paperZooKeeper is what NetChain's paper measured of ZooKeeper, by operation.
var paperZooKeeper = map[peer.Op]struct{ perS, us float64 }{peer.Get: {230e3, 170}, peer.Put: {27e3, 2350}}

func peersResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		for _, other := range []string{"etcd", "ZooKeeper", "Redis", "memcached"} {
			all = append(all, againstPeer(o, x, other)...)
		}
	}
	return all
}

// againstPeer compares one operation with one system: through client libraries, then as fast as it can be asked at all.
func againstPeer(o *figure.Outcome, x float64, other string) []figure.Result {
	op := peer.Ops()[int(x)]
	mine, theirs, myTime, theirTime := o.Median(ours, x, opsPerS), o.Median(other, x, opsPerS), o.Median(ours, x, p50us), o.Median(other, x, p50us)
	rate := figure.Result{Metric: fmt.Sprintf("%s against %s, client libraries on both sides", op, other), Ours: mine, Peer: theirs, Unit: "operations/s"}
	times := figure.Result{Metric: fmt.Sprintf("median time of a %s against %s, client libraries on both sides", op, other), Ours: myTime, Peer: theirTime, Unit: "µs"}
	rate.Mark, times.Mark = peerMarks(op, other, mine, theirs, myTime, theirTime)
	if paper, ok := paperZooKeeper[op]; ok && other == "ZooKeeper" {
		rate.Paper, times.Paper = figure.Value(paper.perS), figure.Value(paper.us)
	}
	all := []figure.Result{rate, times}
	own := o.Median(oursOwn, x, opsPerS)
	if own == nil {
		return all
	}
	fast := func(text string, peer *float64) {
		r := figure.Result{Metric: fmt.Sprintf("%s against %s, %s", op, other, text), Ours: own, Peer: peer, Unit: "operations/s"}
		r.Mark, _ = peerMarks(op, other, own, peer, nil, nil)
		all = append(all, r)
	}
	switch other {
	case "Redis":
		fast("ours in the kernel, redis-benchmark with pipelines", o.Median(redisOwn, x, opsPerS))
		fast("ours in the kernel, its client library without pipelines", o.Median(redisAlone, x, opsPerS))
	case "memcached":
		fast("both in the kernel", o.Median(memcachedOwn, x, opsPerS))
	default:
		fast("ours in the kernel, its client library", theirs)
	}
	return append(all, bundledAgainst(o, x, other)...)
}

// bundledAgainst compares with ours in bundles: with pipelines, which are like them, and, without a mark, with what has one request a
// packet.
func bundledAgainst(o *figure.Outcome, x float64, other string) []figure.Result {
	op := peer.Ops()[int(x)]
	own := o.Median(oursBundled, x, opsPerS)
	if own == nil {
		return nil
	}
	text := fmt.Sprintf("%s against %s, ours in the kernel (bundles of %d), ", op, other, peer.BundleOf(op, peerValueBytes))
	r := figure.Result{Ours: own, Unit: "operations/s"}
	switch other {
	case "Redis":
		r.Metric, r.Peer = text+"redis-benchmark with pipelines", o.Median(redisOwn, x, opsPerS)
		r.Mark, _ = peerMarks(op, other, own, r.Peer, nil, nil)
	case "memcached":
		r.Metric, r.Peer = text+"memcached in the kernel with one request a datagram", o.Median(memcachedOwn, x, opsPerS)
	default:
		r.Metric, r.Peer = text+"its client library", o.Median(other, x, opsPerS)
	}
	return []figure.Result{r}
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
		say(figure.Remark, "Two comparisons are shown. Through client libraries, both sides pay for a client on sockets, which shares the CPUs with the servers and often is what limits. With other generators a client costs as little as it can; etcd and ZooKeeper can be asked through their libraries only, so the comparison with them is of systems as they are used, not of a node with a server."),
		say(figure.Remark, "Many requests in a packet: through client libraries NetCRAQ's go in bundles and Redis's in pipelines as soon as there are several at a moment; memcached's go one by one. Asked in the kernel, NetCRAQ is shown with one request a frame and with bundles: the first is to be compared with Redis without pipelines and with memcached, the second with redis-benchmark with pipelines. memcached could be asked for several keys in a datagram, too, which neither of its clients here does."),
		say(figure.Remark, "Redis and memcached are single servers and keep no copies: they answer without asking anybody. memcached is asked over UDP, Redis over TCP."))
}
