package memory

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/calltime"
	"github.com/netcraq/netcraq/internal/verify/metricspage"
)

// TestMetricsPage compares docs/metrics.md with an active gateway, and checks what it exports.
func TestMetricsPage(t *testing.T) {
	g := start(t, startChain(t), Options{})
	if _, err := open(t, g.address).Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	metricspage.Check(t, "netcraq gateway --memory", g.registry())
	families, err := g.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]*dto.Metric)
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0]
	}
	for _, name := range []string{"netcraq_keyspace_active", "netcraq_keyspace_found", "etcd_server_has_leader", "etcd_server_is_leader"} {
		if values[name].GetGauge().GetValue() != 1 {
			t.Errorf("%s of an active gateway is not 1", name)
		}
	}
	if values["netcraq_keyspace_bytes"].GetGauge().GetValue() == 0 || values["netcraq_keyspace_revision"].GetGauge().GetValue() < 2 {
		t.Error("the keyspace has a key, and neither a size nor a revision")
	}
	eventually(t, "Put is counted", func() bool { return handled(t, g.registry(), "Put", "OK") == 1 })
	if values["netcraq_keyspace_append_seconds"].GetHistogram().GetSampleCount() == 0 {
		t.Error("no append was measured")
	}
}

// handled returns how many calls of a method ended with a code, as the metrics say. The last one may have its answer,
// and not be counted yet.
func handled(t *testing.T, from prometheus.Gatherer, method, code string) (n float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "grpc_server_handled_total" && labels["grpc_method"] == method && labels["grpc_code"] == code {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// measured returns how many requests of a kind a gateway has timed, and its number of leases.
func measured(t *testing.T, g *gateway, kind string) (requests uint64, leases float64) {
	t.Helper()
	families, err := g.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "netcraq_keyspace_request_seconds":
				if m.GetLabel()[0].GetValue() == kind {
					requests = m.GetHistogram().GetSampleCount()
				}
			case "netcraq_keyspace_leases":
				leases = m.GetGauge().GetValue()
			}
		}
	}
	return requests, leases
}

// TestRequestsAreTimed: the gateway at which a client is times its requests by kind, whether it is active or relays,
// and both know the leases.
func TestRequestsAreTimed(t *testing.T) {
	active, relaying := pair(t)
	relaying.waitRelay(t)
	for i, g := range []*gateway{active, relaying} {
		c := open(t, g.address)
		if _, err := c.Put(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Grant(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{calltime.Write, calltime.Read, calltime.Other} {
			eventually(t, "a request of kind "+kind+" is timed", func() bool {
				n, _ := measured(t, g, kind)
				return n == 1
			})
		}
		for _, other := range []*gateway{active, relaying} {
			eventually(t, "the leases are counted", func() bool {
				_, leases := measured(t, other, "")
				return leases == float64(i+1)
			})
		}
	}
}

// TestCallsAreCounted: calls are counted by method and code as etcd counts them, those of unknown methods are not, and
// a call that the client ends early is one.
func TestCallsAreCounted(t *testing.T) {
	g := start(t, startChain(t), Options{})
	c := open(t, g.address)
	if _, err := c.Put(t.Context(), "", "a key is missing"); err == nil {
		t.Error("a put without a key had no error")
	}
	if _, err := c.Get(t.Context(), "a", clientv3.WithRev(1_000)); err == nil {
		t.Error("a read of the future had no error")
	}
	unknown := c.ActiveConnection().Invoke(t.Context(), "/nobody.Knows/This", nil, nil, grpc.ForceCodec(nothing{}))
	if unknown == nil {
		t.Error("an unknown method had no error")
	}
	for _, want := range []struct{ method, code string }{{"Put", "InvalidArgument"}, {"Range", "OutOfRange"}} {
		eventually(t, want.method+" is counted", func() bool {
			return handled(t, g.registry(), want.method, want.code) == 1
		})
	}
	if n := handled(t, g.registry(), "This", "Unimplemented"); n != 0 {
		t.Errorf("%v calls of an unknown method were counted", n)
	}
}

// nothing encodes no message.
type nothing struct{}

func (nothing) Marshal(any) ([]byte, error) { return nil, nil }
func (nothing) Unmarshal([]byte, any) error { return nil }
func (nothing) Name() string                { return "nothing" }

// TestDiskMetricsPage compares docs/metrics.md with a gateway of a keyspace on disks, which also counts syncs under
// etcd's name.
func TestDiskMetricsPage(t *testing.T) {
	w := newOnDisk(t)
	g := w.start("a")
	c := open(t, g.address)
	again(func() (*clientv3.PutResponse, error) { return c.Put(w.ctx, "a", "b") })(t)
	metricspage.Check(t, "netcraq keyspace", g.diskRegistry())
	families, err := g.metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]*dto.Metric)
	for _, f := range families {
		seen[f.GetName()] = f.GetMetric()[0]
	}
	if seen["etcd_disk_wal_fsync_duration_seconds"].GetHistogram().GetSampleCount() == 0 {
		t.Error("no sync was measured")
	}
	for _, name := range []string{"netcraq_keyspace_era", "netcraq_keyspace_follows", "netcraq_keyspace_disks",
		"netcraq_keyspace_committed_index", "netcraq_keyspace_applied_index"} {
		if seen[name].GetGauge().GetValue() < 1 {
			t.Errorf("%s is %v", name, seen[name].GetGauge().GetValue())
		}
	}
}
