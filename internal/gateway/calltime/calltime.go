// Package calltime measures how long clients of etcd's API wait for answers, in gateways of an etcd and in keyspaces.
package calltime

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of requests. Each method of etcd has one, so that clients cannot make metrics.
const (
	Read  = "read"
	Write = "write"
	Other = "other"
)

var kinds = map[string]string{
	pb.KV_Range_FullMethodName: Read, pb.KV_Put_FullMethodName: Write, pb.KV_DeleteRange_FullMethodName: Write,
	pb.KV_Txn_FullMethodName: Write,
}

// Buckets are those of all histograms of a gateway: from 25 µs to 3.7 s.
func Buckets() []float64 {
	const first, factor, buckets = 25e-6, 2.5, 14
	return prometheus.ExponentialBuckets(first, factor, buckets)
}

// New makes a histogram by the kind of a request, and by more labels.
func New(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: Buckets()},
		append([]string{"kind"}, labels...))
}

// Times are the times of requests with one answer, by their kind.
type Times map[string]prometheus.Observer

// Of returns the times in a histogram of [New], with values of its other labels.
func Of(h *prometheus.HistogramVec, labels ...string) Times {
	t := make(Times)
	for _, kind := range []string{Read, Write, Other} {
		t[kind] = h.WithLabelValues(append([]string{kind}, labels...)...)
	}
	return t
}

// Observe notes a request that began at a time and ends now.
func (t Times) Observe(method string, began time.Time) {
	kind, known := kinds[method]
	if !known {
		kind = Other
	}
	t[kind].Observe(time.Since(began).Seconds())
}
