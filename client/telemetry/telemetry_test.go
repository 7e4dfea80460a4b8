package telemetry

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// startChain starts a chain of one node on a socket.
func startChain(t *testing.T) *client.Cluster {
	t.Helper()
	plane, err := soft.Listen(netip.MustParseAddrPort("127.66.12.1:0"),
		chain.Options{Shards: 1, CellBytes: 256, MaxObjects: 100, MaxSessions: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plane.Close() })
	cluster := &topology.Cluster{
		Epoch: 1, Shards: 1, Nodes: []topology.Node{{Name: "n1", Addr: plane.Addr()}}, Chains: [][]string{{"n1"}},
	}
	if err := plane.ConfigureAll(map[uint16]chain.ShardConfig{0: cluster.ShardConfig("n1", 0)}); err != nil {
		t.Fatal(err)
	}
	if err := plane.Grant(0, dataplane.Forever); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// Every operation, single or one of many, becomes a span below its caller's and counts in both histograms.
func TestSpansAndMetrics(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	observe, err := New(Options{Tracer: tracer,
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Keys: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: startChain(t), Observe: observe})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, parent := tracer.Tracer("test").Start(ctx, "parent")
	if _, err := c.Put(ctx, "a", []byte("text")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "nothing"); !errors.Is(err, client.ErrNotFound) {
		t.Fatal(err)
	}
	outcomes := c.Do(ctx, []client.Op{client.GetOp("a"), client.AddOp("a", 1)})
	if outcomes[0].Err != nil || !errors.Is(outcomes[1].Err, client.ErrNotCounter) {
		t.Fatal(outcomes)
	}
	started := make(chan error)
	c.Start(ctx, client.DeleteOp("a"), func(_ client.Result, err error) { started <- err })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"put a": "", "get nothing": "", "get a": "", "add a": "not_counter", "delete a": ""}
	for _, s := range spans.Ended() {
		values := make(map[string]string)
		for _, a := range s.Attributes() {
			values[string(a.Key)] = a.Value.String()
		}
		id := s.Name() + " " + values["netcraq.key"]
		kind, expected := want[id]
		if !expected || values["error.type"] != kind || s.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("span %s: %v", id, values)
		}
		if kind == "" && (values["netcraq.node"] != "n1" || values["netcraq.attempts"] < "1") {
			t.Errorf("span %s does not say how: %v", id, values)
		}
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("no spans of %v", want)
	}
	checkMetrics(t, reader, 5)
}

func checkMetrics(t *testing.T, reader *sdkmetric.ManualReader, want uint64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]uint64)
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					counts[m.Name] += p.Count
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					counts[m.Name] += p.Count
				}
			}
		}
	}
	for _, name := range []string{"db.client.operation.duration", "netcraq.client.attempts"} {
		if counts[name] != want {
			t.Errorf("%s: %d operations, want %d", name, counts[name], want)
		}
	}
}
