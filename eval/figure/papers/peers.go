package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/peer"
	"github.com/netcraq/netcraq/eval/plot"
)

// peerNames are the systems by the name of their series.
var peerNames = map[string]string{
	"NetCRAQ": peer.NetCRAQ, "etcd": peer.Etcd, "ZooKeeper": peer.ZooKeeper, "Redis": peer.Redis,
	"memcached": peer.Memcached,
}

// otherPeers are the series that NetCRAQ is compared with.
var otherPeers = []string{"etcd", "ZooKeeper", "Redis", "memcached"}

// peerSeries are the systems through their client libraries.
func peerSeries() []figure.Series {
	return []figure.Series{
		{Name: "NetCRAQ", Role: plot.Ours},
		{Name: "etcd", Role: plot.Peer},
		{Name: "ZooKeeper", Role: plot.Peer, Variant: 1},
		{Name: "Redis", Role: plot.Peer, Variant: 2},
		{Name: "memcached", Role: plot.Peer, Variant: 3},
	}
}

// openPeers are systems that stay open, all of them: starting one takes longer than measuring it.
func openPeers(env figure.Env, o peer.Options) *keep[string, peer.Store] {
	o.Progress = env.Say
	return &keep[string, peer.Store]{
		most: len(peerNames),
		open: func(ctx context.Context, series string) (peer.Store, error) {
			s, err := peer.Open(ctx, peerNames[series], o)
			return s, peerError(err)
		},
		close: func(s peer.Store) { _ = s.Close() },
	} // of processes that end with this one
}

// Clients of a measurement of throughput. Those whose client library can have many requests under
// way at once get as many.
const (
	peerClients    = 64
	manyClients    = 8
	manyPipeline   = 64
	peerPatience   = 5 * time.Second
	peerValueBytes = 16
)

// busy is a load that keeps a store busy, and lone one of a single client.
func busy(s peer.Store, op peer.Op, zipf float64, d time.Duration) peer.Load {
	l := peer.Load{
		Op:         op,
		Clients:    peerClients,
		Zipf:       zipf,
		ValueBytes: peerValueBytes,
		Duration:   d,
		Timeout:    peerPatience,
		Seed:       1,
	}
	if _, many := s.(peer.Many); many && (op == peer.Get || op == peer.Put) {
		l.Clients, l.Pipeline = manyClients, manyPipeline
	}
	return l
}

func lone(op peer.Op, zipf float64, d time.Duration) peer.Load {
	return peer.Load{
		Op:         op,
		Clients:    1,
		Zipf:       zipf,
		ValueBytes: peerValueBytes,
		Duration:   d,
		Timeout:    peerPatience,
		Seed:       1,
	}
}

// Metrics of a system: throughput with many clients, times with one.
const (
	opsPerS = "operations_per_s"
	p50us   = "p50_us"
	p99us   = "p99_us"
	p999us  = "p999_us"

	operationsTimed = "operations_timed" // of the single client
)

// measurePeer spends half of the time on the most that a system does through its client library, the
// rest on the times of a single client.
func measurePeer(ctx context.Context, s peer.Store, op peer.Op, window time.Duration) (figure.Sample, error) {
	load := lone(op, 0, window/2)
	if _, many := s.(peer.Many); many && (op == peer.Get || op == peer.Put) {
		load.Pipeline = manyPipeline // Peak looks for how many are best
	}
	most, err := peer.Peak(ctx, s, load)
	if err != nil {
		return figure.Sample{}, err
	}
	one, err := peer.Run(ctx, s, lone(op, 0, window/2))
	if err != nil {
		return figure.Sample{}, err
	}
	sample := throughput(most)
	v := sample.Values
	v[p50us], v[p99us], v[operationsTimed] = one.P50us, one.P99us, float64(one.Operations)
	addP999(v, p999us, one)
	v["clients"], v["pipeline"], v["errors"] = float64(most.Clients), float64(
		most.Pipeline), float64(most.Errors+one.Errors)
	return sample, nil
}

// addP999 adds p99.9, but not that of a round with so few times that it would be one of the last few.
func addP999(v map[string]float64, name string, found peer.Result) {
	if found.KnowsP999() {
		v[name] = found.P999us
	}
}

// noteSettings adds a system's settings.
func (r *harness) noteSettings(series string, s peer.Store) {
	for _, text := range s.Settings() {
		r.note([]string{fmt.Sprintf("%s: %s", series, text)})
	}
}
