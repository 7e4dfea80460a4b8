package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/internal/bench"
	"github.com/netcraq/netcraq/internal/figure"
	"github.com/netcraq/netcraq/internal/peer"
	"github.com/netcraq/netcraq/internal/plot"
)

// inKernel is the series of reads and writes of which requests are made, and answers checked, in the kernel.
const inKernel = "NetCRAQ, clients in the kernel"

// peerNames are the systems by the name of their series.
var peerNames = map[string]string{"NetCRAQ": peer.NetCRAQ, "etcd": peer.Etcd, "ZooKeeper": peer.ZooKeeper, "Redis": peer.Redis, "memcached": peer.Memcached}

// peerSeries are the systems through their client libraries.
func peerSeries() []figure.Series {
	return []figure.Series{{Name: "NetCRAQ", Role: plot.Ours}, {Name: "etcd", Role: plot.Peer}, {Name: "ZooKeeper", Role: plot.Peer, Variant: 1},
		{Name: "Redis", Role: plot.Peer, Variant: 2}, {Name: "memcached", Role: plot.Peer, Variant: 3}}
}

// openPeers are systems that stay open, all of them: starting one takes longer than measuring it.
func openPeers(env figure.Env, o peer.Options) *keep[string, peer.Store] {
	o.Progress = env.Say
	return &keep[string, peer.Store]{most: len(peerNames), open: func(ctx context.Context, series string) (peer.Store, error) {
		s, err := peer.Open(ctx, peerNames[series], o)
		return s, peerError(err)
	}, close: func(s peer.Store) { _ = s.Close() }} // of processes that end with this one
}

// Clients of a measurement of throughput. Those whose client library can have many requests under way at once get as many.
const (
	peerClients    = 64
	manyClients    = 8
	manyPipeline   = 64
	peerPatience   = 5 * time.Second
	peerValueBytes = 16
)

// busy is a load that keeps a store busy, and lone one of a single client.
func busy(s peer.Store, op peer.Op, zipf float64, d time.Duration) peer.Load {
	l := peer.Load{Op: op, Clients: peerClients, Zipf: zipf, ValueBytes: peerValueBytes, Duration: d, Timeout: peerPatience, Seed: 1}
	if _, many := s.(peer.Many); many && (op == peer.Get || op == peer.Put) {
		l.Clients, l.Pipeline = manyClients, manyPipeline
	}
	return l
}

func lone(op peer.Op, zipf float64, d time.Duration) peer.Load {
	return peer.Load{Op: op, Clients: 1, Zipf: zipf, ValueBytes: peerValueBytes, Duration: d, Timeout: peerPatience, Seed: 1}
}

// What is measured of a system: throughput with many clients, times with one.
const (
	opsPerS = "operations_per_s"
	p50us   = "p50_us"
	p99us   = "p99_us"
	p999us  = "p999_us"
)

// measurePeer spends half of the time on throughput, half on the times of a single client.
func measurePeer(ctx context.Context, s peer.Store, op peer.Op, zipf float64, turn time.Duration) (figure.Sample, error) {
	many, err := peer.Run(ctx, s, busy(s, op, zipf, turn/2))
	if err != nil {
		return figure.Sample{}, err
	}
	one, err := peer.Run(ctx, s, lone(op, zipf, turn/2))
	if err != nil {
		return figure.Sample{}, err
	}
	return values(map[string]float64{opsPerS: many.PerSecond, "loaded_p50_us": many.P50us, "loaded_p99_us": many.P99us, "errors": float64(many.Errors + one.Errors),
		p50us: one.P50us, p99us: one.P99us, p999us: one.P999us, "conflicts": float64(many.Conflicts)}), nil
}

// measureInKernel measures a chain of 3 with requests from the kernel, and one blocking socket for the times.
func measureInKernel(ctx context.Context, op peer.Op, turn time.Duration) (figure.Sample, error) {
	node := bench.NodeOptions{Plane: "xdp", Mode: "auto", Keys: 1000, ValueBytes: peerValueBytes}
	share := 0.0
	if op == peer.Put {
		share = 1
	}
	mix, err := bench.Mix(ctx, bench.MixOptions{NodeOptions: node, Turns: bench.Turns{Seconds: turn.Seconds() / 2, Rounds: 1}, Nodes: 3, WriteShare: share})
	if err != nil {
		return figure.Sample{}, err
	}
	const perSecond = 20_000 // about, of one request at a time
	times, err := bench.Latency(ctx, bench.LatencyOptions{NodeOptions: node, Nodes: 3, Count: max(200, int(turn.Seconds()/6*perSecond))})
	if err != nil {
		return figure.Sample{}, err
	}
	v := map[string]float64{opsPerS: mix.RequestsPerS, p50us: times.ReadP50us, p99us: times.ReadP99us}
	if op == peer.Put {
		v[p50us], v[p99us] = times.WriteP50us, times.WriteP99us
	}
	return values(v), nil
}

// noteSettings adds a system's settings.
func (r *rig) noteSettings(series string, s peer.Store) {
	for _, text := range s.Settings() {
		r.note([]string{fmt.Sprintf("%s: %s", series, text)})
	}
}
