package memory

import (
	"testing"

	dto "github.com/prometheus/client_model/go"

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
	if values["netcraq_keyspace_append_seconds"].GetHistogram().GetSampleCount() == 0 {
		t.Error("no append was measured")
	}
}
