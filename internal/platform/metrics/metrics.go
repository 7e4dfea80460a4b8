// Package metrics makes and serves the metrics of a program, for Prometheus.
package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// New returns a registry of a program's own: these metrics, and those of the process and of Go's runtime.
func New(own ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(own...)
	return r
}

// Some are the metrics of a gatherer whose names begin with a prefix.
func Some(all prometheus.Gatherer, prefix string) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
			return !strings.HasPrefix(f.GetName(), prefix)
		}), err
	})
}

// Handler answers Prometheus, also in the OpenMetrics format. A metric that cannot be read is left out.
func Handler(r prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError})
}

// Page returns what Prometheus gets, in its text format. A metric that cannot be read is left out.
func Page(r prometheus.Gatherer) ([]byte, error) {
	families, err := r.Gather()
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			return nil, err
		}
	}
	if page.Len() == 0 {
		return nil, err
	}
	return page.Bytes(), nil
}

// while is a gatherer that can be ended: its metrics may be in memory that is unmapped afterwards.
type while struct {
	prometheus.Gatherer
	mu   sync.RWMutex
	over bool
}

// Gather implements [prometheus.Gatherer].
func (w *while) Gather() ([]*dto.MetricFamily, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.over {
		return nil, errors.New("the program ends")
	}
	return w.Gatherer.Gather()
}

func (w *while) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// Serve answers Prometheus at /metrics until ctx ends, and closes the listener. No metric is read after it has returned.
func Serve(ctx context.Context, listener net.Listener, r *prometheus.Registry) error {
	mux, source := http.NewServeMux(), &while{Gatherer: r}
	defer source.end()
	mux.Handle("/metrics", Handler(source))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Family declares a metric whose values a collector reads from elsewhere at each scrape.
type Family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Counter declares a counter.
func Counter(name, help string, labels ...string) Family {
	return Family{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// Gauge declares a gauge.
func Gauge(name, help string, labels ...string) Family {
	return Family{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

// Values receives the values of one scrape.
type Values chan<- prometheus.Metric

// Set reports a value. The labels are in the order of the declaration.
func (v Values) Set(f Family, value float64, labels ...string) {
	v <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// Is reports 1 for a condition that holds, else 0.
func (v Values) Is(f Family, holds bool, labels ...string) {
	value := 0.0
	if holds {
		value = 1
	}
	v.Set(f, value, labels...)
}

// Fail reports that a metric could not be read.
func (v Values) Fail(f Family, err error) { v <- prometheus.NewInvalidMetric(f.desc, err) }

// Collector is a [prometheus.Collector] of declared families, whose values one function reads.
type Collector struct {
	families []Family
	read     func(Values)
}

// Collect returns a collector that calls read at each scrape. read may be called from several goroutines.
func Collect(read func(Values), families ...Family) Collector { return Collector{families, read} }

// Describe implements [prometheus.Collector].
func (c Collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.families {
		out <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c Collector) Collect(out chan<- prometheus.Metric) { c.read(out) }
