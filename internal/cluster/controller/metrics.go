package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/security"
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
	shards    *prometheus.GaugeVec
	nodes     prometheus.Gauge
	copied    prometheus.Gauge
	leads     prometheus.GaugeFunc
}

func newMetrics(leads func() bool, refusals *security.Refusals) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "netcraq", Subsystem: "controller", Name: name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "netcraq", Subsystem: "controller", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10)})
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		elections: counter("elections_total", "Times that this controller became the leader."),
		changes:   counter("changes_total", "Changes of the state that it made durable as the leader."),
		epochs:    counter("epochs_total", "New epochs of shards in them."),
		fenced:    counter("failovers_total", "Nodes that were suspected and removed from their chains."),
		grants:    counter("grants_total", "Leases granted to nodes, or prolonged."),
		storing:   histogram("store_seconds", "Time until a change was durable."),
		step:      histogram("step_seconds", "Time that the leader needed for what had arrived."),
		shards: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "netcraq", Name: "shards",
			Help: "Shards by what they are, as the leader sees them."}, []string{"state"}),
		nodes: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "netcraq", Name: "nodes",
			Help: "Nodes of the cluster, as the leader sees them."}),
		copied: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "netcraq", Name: "repair_copied_bytes",
			Help: "Copied since the leader's election."}),
		leads: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "netcraq", Subsystem: "controller", Name: "leads",
			Help: "1 if this controller leads."}, func() float64 {
			if leads() {
				return 1
			}
			return 0
		}),
	}
	m.registry.MustRegister(m.elections, m.changes, m.epochs, m.fenced, m.grants, m.storing, m.step, m.shards, m.nodes, m.copied, m.leads)
	for reason, n := range map[string]*atomic.Uint64{"stranger": &refusals.Stranger, "expired": &refusals.Expired, "role": &refusals.Role} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "netcraq", Name: "refused_total",
			Help: "Connections and calls refused for their certificate.", ConstLabels: prometheus.Labels{"reason": reason}},
			func() float64 { return float64(n.Load()) }))
	}
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

// cluster updates the metrics of the cluster from the leader's status.
func (m *metrics) cluster(s *controllerv1.StatusResponse) {
	for state, n := range map[string]uint32{
		"whole": s.GetShardsWhole(), "short": s.GetShardsShort(), "changing": s.GetShardsChanging(), "down": s.GetShardsDown(),
		"copying": s.GetShardsCopying(), "catching_up": s.GetShardsCatchingUp(),
	} {
		m.shards.WithLabelValues(state).Set(float64(n))
	}
	m.nodes.Set(float64(len(s.GetNodes())))
	m.copied.Set(float64(s.GetCopiedBytes()))
}

// serve answers Prometheus until ctx ends.
func (m *metrics) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
