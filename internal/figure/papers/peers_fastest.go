package papers

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/figure"
	"github.com/netcraq/netcraq/internal/peer"
	"github.com/netcraq/netcraq/internal/plot"
)

// Series of peers that are asked in another way than through the client library at its best.
const (
	redisAlone    = "Redis, no pipelines"
	redisOwn      = "Redis, redis-benchmark"
	memcachedKern = "memcached, clients in the kernel"
)

// otherway is such a way.
type otherway struct {
	series  figure.Series
	of      string // series whose system it is
	measure func(ctx context.Context, s peer.Store, op peer.Op, turn time.Duration) (peer.Result, error)
}

// otherways say what Redis does when every request is a packet of its own, as all requests to the others are, and what generators do
// that cost less than a client library.
func otherways(only func(x float64) bool) []otherway {
	reads := func(x float64) bool { return peer.Ops()[int(x)] == peer.Get }
	fastest := func(pipeline int) func(context.Context, peer.Store, peer.Op, time.Duration) (peer.Result, error) {
		return func(ctx context.Context, s peer.Store, op peer.Op, turn time.Duration) (peer.Result, error) {
			l := lone(op, 0, turn)
			l.Pipeline = pipeline
			return peer.Fastest(ctx, s, l)
		}
	}
	return []otherway{
		{figure.Series{Name: redisAlone, Role: plot.Peer, Variant: 4, Has: only}, "Redis",
			func(ctx context.Context, s peer.Store, op peer.Op, turn time.Duration) (peer.Result, error) {
				l := lone(op, 0, turn)
				l.Clients = peerClients
				return peer.Run(ctx, s, l)
			}},
		{figure.Series{Name: redisOwn, Role: plot.Peer, Variant: 5, Has: only}, "Redis", fastest(manyPipeline)},
		{figure.Series{Name: memcachedKern, Role: plot.Peer, Variant: 6, Has: reads}, "memcached", fastest(1)},
	}
}

// measureOther measures a series that is another way to ask a system; ok says whether it is one.
func measureOther(ctx context.Context, stores *keep[string, peer.Store], cell figure.Cell, op peer.Op, turn time.Duration) (sample figure.Sample, ok bool, err error) {
	for _, way := range otherways(nil) {
		if way.series.Name != cell.Series {
			continue
		}
		s, err := stores.get(ctx, way.of)
		if err != nil {
			return sample, true, err
		}
		r, err := way.measure(ctx, s, op, turn)
		if err != nil {
			return sample, true, err
		}
		return values(map[string]float64{opsPerS: r.PerSecond}), true, nil
	}
	return sample, false, nil
}
