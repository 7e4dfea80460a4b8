package memory

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/netcraq/netcraq/internal/gateway/calltime"
	"github.com/netcraq/netcraq/internal/platform/metrics"
)

// Metrics of a keyspace in memory. Those with etcd's names mean what they mean at a member of etcd.
var (
	activeGauge  = metrics.Gauge("netcraq_keyspace_active", "1 if this gateway is active: it executes all writes.")
	foundGauge   = metrics.Gauge("netcraq_keyspace_found", "1 if this gateway has read the keyspace.")
	termGauge    = metrics.Gauge("netcraq_keyspace_term", "Highest term that this gateway has seen.")
	revGauge     = metrics.Gauge("netcraq_keyspace_revision", "Revision of this gateway's copy.")
	oldestGauge  = metrics.Gauge("netcraq_keyspace_compacted_revision", "Revision up to which the history is compacted.")
	bytesGauge   = metrics.Gauge("netcraq_keyspace_bytes", "Size of the keyspace with its history.")
	quotaGauge   = metrics.Gauge("netcraq_keyspace_quota_bytes", "Size from which on writes are refused.")
	relayGauge   = metrics.Gauge("netcraq_keyspace_relaying_gateways", "Gateways that relay writes to this one.")
	silenceGauge = metrics.Gauge("netcraq_keyspace_chain_silence_seconds", "Time since the chain answered last.")
	leaseGauge   = metrics.Gauge("netcraq_keyspace_leases", "Leases that clients were granted and that have not ended.")
	hasLeader    = metrics.Gauge("etcd_server_has_leader", "1 if this gateway knows the active one and reaches the chain.")
	isLeader     = metrics.Gauge("etcd_server_is_leader", "1 if this gateway is active.")
	sizeGauge    = metrics.Gauge("etcd_mvcc_db_total_size_in_bytes", "Size of the keyspace with its history.")
)

// newAppends makes the histogram of appends.
func newAppends() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "netcraq_keyspace_append_seconds",
		Help:    "Time until the chain has stored a batch of writes, at the active gateway.",
		Buckets: calltime.Buckets(),
	})
}

// newLatency makes the histogram of clients' requests.
func newLatency() *prometheus.HistogramVec {
	return calltime.New("netcraq_keyspace_request_seconds", "Time to answer requests with one answer, by their kind.")
}

// registry returns the gateway's metrics.
func (g *Gateway) registry() *prometheus.Registry {
	return metrics.New(g.appends, g.latency, g.calls.handled, metrics.Collect(g.readMetrics,
		activeGauge, foundGauge, termGauge, revGauge, oldestGauge, bytesGauge, quotaGauge, relayGauge, leaseGauge,
		silenceGauge, hasLeader, isLeader, sizeGauge))
}

// Metrics of a keyspace on disks.
var (
	eraGauge       = metrics.Gauge("netcraq_keyspace_era", "Number of the active era. It rises with each recovery.")
	followsGauge   = metrics.Gauge("netcraq_keyspace_follows", "1 if this gateway reads and writes the log of the active era.")
	disksGauge     = metrics.Gauge("netcraq_keyspace_disks", "Disks that count in the active era.")
	committedGauge = metrics.Gauge("netcraq_keyspace_committed_index",
		"Last entry of the log that this gateway knows a majority of the disks to have.")
	appliedGauge = metrics.Gauge("netcraq_keyspace_applied_index", "Last entry of the log that this gateway has applied.")
)

// syncs begins the names of the metrics of etcd's write-ahead log, in which a disk keeps its writes.
const syncs = "etcd_disk_wal_"

// diskRegistry returns the metrics of the gateway's disk.
func (g *Gateway) diskRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.Collect(g.readDisk, eraGauge, followsGauge, disksGauge, committedGauge, appliedGauge))
	return r
}

func (g *Gateway) readDisk(v metrics.Values) {
	s := g.disk.Status()
	v.Set(eraGauge, float64(s.Record.Active.Number))
	v.Is(followsGauge, s.Entered && !s.Broken)
	v.Set(disksGauge, float64(len(s.Record.Active.Set)))
	v.Set(committedGauge, float64(s.Counted))
	v.Set(appliedGauge, float64(s.Applied))
}

// metrics are all metrics of the gateway.
func (g *Gateway) metrics() prometheus.Gatherer {
	if g.disk == nil {
		return g.registry()
	}
	return prometheus.Gatherers{g.registry(), g.diskRegistry(), metrics.Some(prometheus.DefaultGatherer, syncs)}
}

func (g *Gateway) readMetrics(v metrics.Values) {
	silence := time.Since(g.began) - time.Duration(g.contact.Load())
	led := g.ledFor() > 0
	v.Set(leaseGauge, float64(len(g.current().Leases().Leases())))
	g.mu.Lock()
	defer g.mu.Unlock()
	v.Is(activeGauge, g.lead != nil)
	v.Is(isLeader, g.lead != nil)
	v.Is(hasLeader, led && (g.lead != nil || g.holder != ""))
	v.Is(foundGauge, g.cluster != 0)
	v.Set(termGauge, float64(g.term))
	v.Set(revGauge, float64(g.space.Revision()))
	v.Set(oldestGauge, float64(g.space.Compacted()))
	v.Set(bytesGauge, float64(g.space.Bytes()))
	v.Set(sizeGauge, float64(g.space.Bytes()))
	v.Set(quotaGauge, float64(g.o.QuotaBytes))
	v.Set(relayGauge, float64(len(g.others)))
	v.Set(silenceGauge, silence.Seconds())
}
