package deployment

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"gonum.org/v1/gonum/stat"

	"github.com/netcraq/netcraq/eval/statistics"
)

const (
	configMaps = "/api/v1/namespaces/default/configmaps"
	// warmUp is the number of reads before those that are measured. The gateway places the key meanwhile.
	warmUp = 100
	// valueBytes is the length of the ConfigMap's only value.
	valueBytes = 256
)

// configMap is the ConfigMap that is read and updated.
func configMap(n int) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q},
		"data": {"number": "%d", "value": %q}}`, name, n, strings.Repeat("v", valueBytes))
}

// latency measures reads and updates of one ConfigMap, one after the other. The API server answers such a read from its
// store and not from its watch cache.
func (c *Cluster) latency(ctx context.Context, r *Cycle) error {
	if err := c.try(ctx, http.MethodPost, configMaps, jsonKind, configMap(0)); err != nil {
		return err
	}
	defer func() { _ = c.try(ctx, http.MethodDelete, configMaps+"/"+name, "", nil) }() // the cluster is removed anyway
	get := func(int) error { return c.api.Get(ctx, configMaps+"/"+name, nil) }
	if _, err := timed(warmUp, get); err != nil {
		return err
	}
	before, err := c.read(ctx)
	if err != nil {
		return err
	}
	gets, err := timed(c.o.Requests, get)
	if err != nil {
		return err
	}
	after, err := c.read(ctx)
	if err != nil {
		return err
	}
	puts, err := timed(c.o.Requests, func(n int) error {
		return c.api.Do(ctx, http.MethodPut, configMaps+"/"+name, jsonKind, configMap(n), nil)
	})
	if err != nil {
		return err
	}
	last, err := c.read(ctx)
	if err != nil {
		return err
	}
	r.GetStoreMs, r.PutStoreMs = atStore(&after, &before, "get"), atStore(&last, &after, "update")
	r.GetMeanMs, r.PutMeanMs = stat.Mean(gets, nil), stat.Mean(puts, nil)
	r.GetShare = min(1, (after.chainReads()-before.chainReads())/float64(c.o.Requests))
	r.GetP50Ms, r.GetP99Ms = statistics.Quantile(0.5, gets), statistics.Quantile(0.99, gets)
	r.PutP50Ms, r.PutP99Ms = statistics.Quantile(0.5, puts), statistics.Quantile(0.99, puts)
	return nil
}

// atStore is how long the API server waited for its store, in the mean of its requests of a kind for ConfigMaps between
// two readings, in milliseconds. Its histogram has too few buckets for a median.
func atStore(after, before *reading, operation string) float64 {
	const waits, milliseconds = "etcd_request_duration_seconds", 1000
	return milliseconds * after.api.mean(before.api, waits, func(m *dto.Metric) bool {
		return label(m, "resource") == "configmaps" && label(m, "operation") == operation
	})
}

// timed returns the sorted durations of calls in milliseconds.
func timed(n int, call func(int) error) ([]float64, error) {
	took := make([]float64, n)
	for i := range took {
		start := time.Now()
		if err := call(i); err != nil {
			return nil, err
		}
		took[i] = time.Since(start).Seconds() * 1000
	}
	slices.Sort(took)
	return took, nil
}
