package papers

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
	"github.com/netcraq/netcraq/eval/plot"
)

// Series of systems that are asked in another way than through the client library at its best.
const (
	oursOwn      = "NetCRAQ, clients in the kernel"
	oursBundled  = "NetCRAQ, clients in the kernel, bundles"
	redisAlone   = "Redis, redis-benchmark, no pipelines"
	redisOwn     = "Redis, redis-benchmark, pipelines"
	memcachedOwn = "memcached, clients in the kernel"
)

// otherway is such a way.
type otherway struct {
	series  figure.Series
	of      string // series whose system it is
	measure func(ctx context.Context, s peer.Store, op peer.Op, window time.Duration) (figure.Sample, error)
}

// otherways are load generators that cost less than a client library, with one request a packet
// and, for NetCRAQ and Redis, with many.
func otherways() []otherway {
	is := func(ops ...peer.Op) func(x float64) bool {
		return func(x float64) bool {
			for _, op := range ops {
				if peer.Ops()[int(x)] == op {
					return true
				}
			}
			return false
		}
	}
	return []otherway{
		{figure.Series{Name: oursOwn, Role: plot.Ours, Variant: 1, Has: is(peer.Get, peer.Put)}, ours, fastest(1)},
		{
			figure.Series{Name: oursBundled, Role: plot.Ours, Variant: 2, Has: is(peer.Get, peer.Put)},
			ours,
			fastest(manyPipeline),
		},
		{
			figure.Series{Name: redisAlone, Role: plot.Peer, Variant: 4, Has: is(peer.Get, peer.Put)},
			"Redis",
			fastest(1),
		},
		{
			figure.Series{Name: redisOwn, Role: plot.Peer, Variant: 5, Has: is(peer.Get, peer.Put)},
			"Redis",
			fastest(manyPipeline),
		},
		{figure.Series{Name: memcachedOwn, Role: plot.Peer, Variant: 6, Has: is(peer.Get)}, "memcached", fastest(1)},
	}
}

// fastest measures with the fastest generator there is for a system.
func fastest(pipeline int) func(context.Context, peer.Store, peer.Op, time.Duration) (figure.Sample, error) {
	return func(ctx context.Context, s peer.Store, op peer.Op, window time.Duration) (figure.Sample, error) {
		l := lone(op, 0, window)
		l.Pipeline = pipeline
		r, err := peer.Fastest(ctx, s, l)
		return throughput(r), err
	}
}

func throughput(r peer.Result) figure.Sample {
	s := values(map[string]float64{opsPerS: r.PerSecond})
	s.Detail = r.How()
	return s
}

// measureOther measures a series that is another way to ask a system; ok says whether it is one.
func measureOther(
	ctx context.Context,
	stores *keep[string, peer.Store],
	cell figure.Cell,
	op peer.Op,
	window time.Duration,
) (sample figure.Sample, ok bool, err error) {
	for _, way := range otherways() {
		if way.series.Name != cell.Series {
			continue
		}
		s, err := stores.get(ctx, way.of)
		if err != nil {
			return sample, true, err
		}
		sample, err = way.measure(ctx, s, op, window)
		return sample, true, peerError(err)
	}
	return sample, false, nil
}
