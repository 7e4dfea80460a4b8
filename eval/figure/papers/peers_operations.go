package papers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
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
		Source: figure.Source{
			Paper: "NetChain (NSDI'18), section 8, as summarised",
			Reports: "ZooKeeper: 170 µs for a read and 2,350 µs for a write, 230,000 reads/s and 27,000 writes/s " +
				"on three servers; " +
				"NetChain on four Tofino switches: 9.7 µs for both, 82 million queries/s. etcd, Redis " +
				"and memcached are not in the papers.",
		},
		X: figure.Axis{Label: "operation", Names: names},
		Panels: []figure.Panel{
			{
				Title:  "throughput, many clients",
				Metric: opsPerS,
				Bars:   true,
				Log:    true,
				Label:  "operations/s",
				Unit:   "operations/s",
			},
			{Title: "median time, one client", Metric: p50us, Bars: true, Log: true, Label: "µs", Unit: "µs"},
			{Title: "p99, one client", Metric: p99us, Bars: true, Log: true, Label: "µs", Unit: "µs"},
			{
				Title:  "p99.9, one client, of 10,000 at least",
				Metric: p999us,
				Bars:   true,
				Log:    true,
				Label:  "µs",
				Unit:   "µs",
			},
		},
		Rows:   2,
		Series: series,
		Needs:  figure.Needs{Root: true, CPUs: 2},
		Quick:  figure.Plan{Xs: xs, Rounds: 1, Window: 800 * time.Millisecond, Budget: 55 * time.Second},
		Full:   figure.Plan{Xs: xs, Rounds: 5, Window: 2 * time.Second, Budget: 290 * time.Second},
		Open:   openPeersOperations, Results: peersResults, Notes: peersNotes,
	}
}

func openPeersOperations(_ context.Context, env figure.Env) (figure.Harness, error) {
	stores := openPeers(env, peer.Options{})
	r := &harness{close: stores.all}
	r.note([]string{
		"throughput through client libraries: at the fastest number of clients, and of requests in " +
			"flight where the library allows several, searched for each time. Times: one client, one " +
			"operation at a time",
		"generators: NetCRAQ's and memcached's make requests in the kernel, each with its own servers. " +
			"NetCRAQ's chain is as long as the clients'. Reads at its head have one request a frame, or as " +
			"many independent ones as fit (bundles). redis-benchmark uses sockets, with one request a packet " +
			"or pipelines. etcd and ZooKeeper have no generators",
		fmt.Sprintf(
			"1,000 keys, all alike, values of %d bytes; reads are linearizable where the system can do that",
			peerValueBytes),
	})
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		op := peer.Ops()[int(cell.X)]
		if sample, ok, err := measureOther(ctx, stores, cell, op, window/2); ok {
			return sample, err
		}
		s, err := stores.get(ctx, cell.Series)
		if err != nil {
			return figure.Sample{}, err
		}
		r.noteSettings(cell.Series, s)
		return measurePeer(ctx, s, op, window)
	}
	return r, nil
}

// paperZooKeeper has the measurements of ZooKeeper in NetChain's paper, by operation.
var paperZooKeeper = map[peer.Op]struct{ perS, us float64 }{peer.Get: {230e3, 170}, peer.Put: {27e3, 2350}}

// peersResults has the same lines for all measurements, so that programs can look for their names.
func peersResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for x, op := range peer.Ops() {
		for _, other := range otherPeers {
			all = append(all, againstPeer(o, float64(x), other)...)
		}
		for _, c := range otherComparisons(op) {
			r := figure.Result{
				Metric: fmt.Sprintf("%s against %s, %s", op, c.other, c.text),
				Unit:   "operations/s",
				Values: figure.Values{
					figure.Ours: o.Median(c.ours, float64(x), opsPerS),
					figure.Peer: o.Median(c.peer, float64(x), opsPerS),
				},
			}
			if c.like {
				r.Mark, _ = peerMarks(op, c.other, r.Values[figure.Ours], r.Values[figure.Peer], nil, nil)
			}
			all = append(all, r)
		}
	}
	return all
}

// againstPeer compares one operation with one system, through client libraries.
func againstPeer(o *figure.Outcome, x float64, other string) []figure.Result {
	op := peer.Ops()[int(x)]
	mine, theirs, myTime, theirTime := o.Median(ours, x, opsPerS), o.Median(other, x,
		opsPerS), o.Median(ours, x, p50us), o.Median(
		other,
		x,
		p50us,
	)
	rate := figure.Result{
		Metric: fmt.Sprintf("%s against %s, client libraries on both sides", op, other),
		Unit:   "operations/s",
		Values: figure.Values{figure.Ours: mine, figure.Peer: theirs},
	}
	times := figure.Result{
		Metric: fmt.Sprintf("median time of a %s against %s, client libraries on both sides", op, other),
		Unit:   "µs",
		Values: figure.Values{figure.Ours: myTime, figure.Peer: theirTime},
	}
	rate.Mark, times.Mark = peerMarks(op, other, mine, theirs, myTime, theirTime)
	if paper, ok := paperZooKeeper[op]; ok && other == "ZooKeeper" {
		rate.Values[figure.Paper], times.Values[figure.Paper] = figure.Value(paper.perS), figure.Value(paper.us)
	}
	return []figure.Result{rate, times}
}

// comparison is a line of the summary with a generator on one side at least.
type comparison struct {
	other, text string
	ours, peer  string // series
	like        bool   // as many requests in a packet on both sides, or the nearest there is: a mark counts
}

// otherComparisons are those of an operation. Their texts name the costs of each side.
func otherComparisons(op peer.Op) []comparison {
	if op != peer.Get && op != peer.Put {
		return nil
	}
	bundles := fmt.Sprintf("bundles of %d", peer.BundleOf(op, peerValueBytes))
	all := []comparison{
		{
			"Redis",
			"one request a packet: ours from the kernel, redis-benchmark on sockets without pipelines",
			oursOwn,
			redisAlone,
			true,
		},
		{
			"Redis",
			"many requests a packet: ours from the kernel in " + bundles + ", redis-benchmark on sockets with " +
				"pipelines",
			oursBundled,
			redisOwn,
			true,
		},
		{
			"Redis",
			"unlike: ours from the kernel with one request a packet, redis-benchmark with pipelines",
			oursOwn,
			redisOwn,
			false,
		},
	}
	for _, other := range []string{"etcd", "ZooKeeper"} {
		all = append(
			all,
			comparison{
				other,
				"only it pays for a client: ours from the kernel with one request a packet, its client library",
				oursOwn,
				other,
				false,
			},
			comparison{
				other,
				"only it pays for a client: ours from the kernel in " + bundles + ", its client library",
				oursBundled,
				other,
				false,
			},
		)
	}
	if op == peer.Get { // there is no generator for memcached's writes
		all = append(
			all,
			comparison{"memcached", "one request a packet, both from the kernel", oursOwn, memcachedOwn, true},
			comparison{
				"memcached",
				"unlike: ours from the kernel in " + bundles + ", memcached's from the kernel with one request a " +
					"packet",
				oursBundled,
				memcachedOwn,
				false,
			},
		)
	}
	return all
}

// peerMarks are the targets of reads; other operations have none.
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
				notes = append(notes, say(figure.Remark, "peers-zookeeper", facts{
					"Op":    op,
					"Here":  *mine,
					"Paper": paper.perS,
					"CPUs":  o.Header.Host.CPUs,
				}))
			}
		}
		for _, other := range otherPeers {
			ratio := figure.Ratio(o.Median("NetCRAQ", x, opsPerS), o.Median(other, x, opsPerS))
			if ratio != nil && *ratio < 1 {
				notes = append(notes, say(figure.Differs, "peers-faster", facts{
					"Op":    op,
					"Other": other,
					"Times": 1 / *ratio,
				}))
			}
		}
	}
	notes = append(notes, withoutP999(o)...)
	return append(
		notes,
		say(figure.Remark, "peers-comparisons", nil),
		say(figure.Remark, "peers-generator", nil),
		say(figure.Remark, "peers-packets", nil),
		say(figure.Remark, "peers-single", nil),
	)
}

// withoutP999 lists the systems with too few operations for a p99.9.
func withoutP999(o *figure.Outcome) []figure.Note {
	var few []string
	for _, s := range peerSeries() {
		for _, x := range o.Xs {
			if timed := o.Median(s.Name, x, operationsTimed); timed != nil && o.Median(s.Name, x, p999us) == nil {
				few = append(few, fmt.Sprintf("%s, %s (%.0f)", s.Name, o.Spec.X.Place(x), *timed))
			}
		}
	}
	if len(few) == 0 {
		return nil
	}
	return []figure.Note{
		say(figure.Remark, "peers-p999", facts{"Operations": peer.TailTimes, "Series": strings.Join(few, "; ")}),
	}
}
