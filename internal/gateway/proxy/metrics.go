package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/netcraq/netcraq/internal/gateway/calltime"
	"github.com/netcraq/netcraq/internal/platform/metrics"
)

// Metrics of the cache.
var (
	hitCount    = metrics.Counter("netcraq_gateway_hits_total", "Reads answered from the chain.")
	nearbyCount = metrics.Counter("netcraq_gateway_nearby_hits_total",
		"Of the reads answered from the chain, those without the network: by a node on this machine.")
	missCount = metrics.Counter("netcraq_gateway_misses_total", "Reads of placed keys that etcd had to answer.")
	ownCount  = metrics.Counter("netcraq_gateway_own_writes_total", "Writes of the gateway's own keys in etcd.", "kind")
	keyGauge  = metrics.Gauge("netcraq_gateway_placed_keys", "Keys that this gateway placed in the chain.")
	outGauge  = metrics.Gauge("netcraq_gateway_excluded_keys",
		"Keys that no gateway caches any more, because a write reached etcd past the gateways.")
	gatewayGauge = metrics.Gauge("netcraq_gateway_gateways", "Gateways of this etcd that have a session, this one included.")
	sessionGauge = metrics.Gauge("netcraq_gateway_session", "1 if this gateway has a session in etcd.")
	cacheGauge   = metrics.Gauge("netcraq_gateway_caching",
		"1 unless the cache has ended for good, such as for etcd's authentication.")
	waitingGauge = metrics.Gauge("netcraq_gateway_chain_calls", "Calls of the chain that clients wait for.")
	longestGauge = metrics.Gauge("netcraq_gateway_chain_wait_seconds", "How long the oldest of these calls has taken.")
)

// latency measures requests with one answer.
type latency struct {
	times *prometheus.HistogramVec
	chain calltime.Times // reads that the chain answered, and that needed no goroutine
	etcd  calltime.Times
}

func newLatency() *latency {
	times := calltime.New("netcraq_gateway_request_seconds",
		"Time to answer requests with one answer, by their kind, and whether the chain alone answered.", "by")
	return &latency{times: times, chain: calltime.Of(times, "chain"), etcd: calltime.Of(times, "gateway")}
}

// registry returns the gateway's metrics. etcd's own are those of its members, at /metrics.
func (s *Server) registry() *prometheus.Registry {
	own := []prometheus.Collector{s.latency.times}
	if s.cache != nil {
		own = append(own, metrics.Collect(s.readCache, hitCount, nearbyCount, missCount, ownCount, keyGauge, outGauge,
			gatewayGauge, sessionGauge, cacheGauge, waitingGauge, longestGauge))
	}
	return metrics.New(own...)
}

func (s *Server) readCache(v metrics.Values) {
	counts, now := s.cache.Stats(), s.cache.Overview()
	v.Set(hitCount, float64(counts.Hits))
	v.Set(nearbyCount, float64(counts.Nearby))
	v.Set(missCount, float64(counts.Misses))
	for kind, n := range s.cache.OwnWrites() {
		v.Set(ownCount, float64(n), kind)
	}
	v.Set(keyGauge, float64(now.Placed))
	v.Set(outGauge, float64(now.Excluded))
	v.Set(gatewayGauge, float64(now.Gateways))
	v.Is(sessionGauge, now.Session)
	v.Is(cacheGauge, !now.Ended)
	v.Set(waitingGauge, float64(now.Waiting))
	v.Set(longestGauge, now.Longest.Seconds())
}
