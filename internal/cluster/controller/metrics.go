package controller

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/security"
	pages "github.com/netcraq/netcraq/internal/platform/metrics"
)

// metrics are for Prometheus.
type metrics struct {
	registry  *prometheus.Registry
	elections prometheus.Counter
	changes   prometheus.Counter
	epochs    prometheus.Counter
	fenced    prometheus.Counter
	grants    prometheus.Counter
	storing   prometheus.Histogram
	step      prometheus.Histogram
	term      func() *leading // nil while this controller does not lead
	seen      atomic.Pointer[sighting]
}

// sighting is the cluster as the leader of a term saw it last.
type sighting struct {
	term   *leading
	status *controllerv1.StatusResponse
}

// Metrics of the cluster, which only the leader exports.
var (
	leadsGauge = pages.Gauge("netcraq_controller_leads", "1 if this controller leads.")
	shardGauge = pages.Gauge("netcraq_shards", "Shards by what they are, as the leader sees them.", "state")
	nodeGauge  = pages.Gauge("netcraq_nodes", "Nodes of the cluster, as the leader sees them.")
	copyGauge  = pages.Gauge("netcraq_repair_copied_bytes", "Copied since the leader's election.")
	refusals   = pages.Counter("netcraq_refused_total", "Connections and calls refused for their certificate.", "reason")
)

func newMetrics(term func() *leading, refused *security.Refusals) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "netcraq", Subsystem: "controller", Name: name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "netcraq", Subsystem: "controller", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10)})
	}
	m := &metrics{
		elections: counter("elections_total", "Times that this controller became the leader."),
		changes:   counter("changes_total", "Changes of the state that it made durable as the leader."),
		epochs:    counter("epochs_total", "New epochs of shards in them."),
		fenced:    counter("failovers_total", "Nodes that were suspected and removed from their chains."),
		grants:    counter("grants_total", "Leases granted to nodes, or prolonged."),
		storing:   histogram("store_seconds", "Time until a change was durable."),
		step:      histogram("step_seconds", "Time that the leader needed for what had arrived."),
		term:      term,
	}
	m.registry = pages.New(m.elections, m.changes, m.epochs, m.fenced, m.grants, m.storing, m.step,
		pages.Collect(m.read, leadsGauge, shardGauge, nodeGauge, copyGauge),
		pages.Collect(func(v pages.Values) {
			v.Set(refusals, float64(refused.Stranger.Load()), "stranger")
			v.Set(refusals, float64(refused.Expired.Load()), "expired")
			v.Set(refusals, float64(refused.Role.Load()), "role")
		}, refusals))
	return m
}

// stored counts a change that became durable.
func (m *metrics) stored(c *reconfig.Change, took time.Duration) {
	m.changes.Inc()
	m.epochs.Add(float64(len(c.Shards)))
	m.storing.Observe(took.Seconds())
	for i := range c.Nodes {
		if c.Nodes[i].Standing.Fenced() && c.Nodes[i].FencedBy == c.Number {
			m.fenced.Inc()
		}
	}
}

// cluster notes what the leader of a term sees of the cluster.
func (m *metrics) cluster(term *leading, s *controllerv1.StatusResponse) {
	m.seen.Store(&sighting{term, s})
}

// read reports the cluster. A controller that leads no more reports none: its view of the cluster is outdated.
func (m *metrics) read(v pages.Values) {
	term, seen := m.term(), m.seen.Load()
	v.Is(leadsGauge, term != nil)
	if term == nil || seen == nil || seen.term != term {
		return
	}
	s := seen.status
	for state, n := range map[string]uint32{
		"whole": s.GetShardsWhole(), "short": s.GetShardsShort(), "changing": s.GetShardsChanging(), "down": s.GetShardsDown(),
		"copying": s.GetShardsCopying(), "catching_up": s.GetShardsCatchingUp(),
	} {
		v.Set(shardGauge, float64(n), state)
	}
	v.Set(nodeGauge, float64(len(s.GetNodes())))
	v.Set(copyGauge, float64(s.GetCopiedBytes()))
}

// Metrics implements the API.
func (c *Controller) Metrics(context.Context, *controllerv1.MetricsRequest) (*controllerv1.MetricsResponse, error) {
	page, err := pages.Page(c.metrics.registry)
	if err != nil {
		return nil, err
	}
	return &controllerv1.MetricsResponse{Page: page}, nil
}
