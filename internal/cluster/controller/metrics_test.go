package controller

import (
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/verify/metricspage"
)

// TestFormerLeadersMetrics: a controller that leads no more, or leads another term, exports no view of the cluster.
func TestFormerLeadersMetrics(t *testing.T) {
	var term *leading
	m := newMetrics(func() *leading { return term }, new(security.Refusals))
	exports := func() bool {
		t.Helper()
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return strings.HasPrefix(f.GetName(), "netcraq_shards") || f.GetName() == "netcraq_nodes"
		})
	}
	first := new(leading)
	term = first
	m.cluster(first, &controllerv1.StatusResponse{ShardsWhole: 256})
	if !exports() {
		t.Error("the leader does not export the cluster's shards")
	}
	term = nil
	if exports() {
		t.Error("a former leader exports the shards that it saw")
	}
	term = &leading{known: true}
	if exports() {
		t.Error("a new term exports what the one before saw")
	}
	m.cluster(first, &controllerv1.StatusResponse{}) // a status that was requested in the term before
	if exports() {
		t.Error("a new term exports what the one before saw, which was late")
	}
}

func TestMetricsPage(t *testing.T) {
	term := new(leading)
	m := newMetrics(func() *leading { return term }, new(security.Refusals))
	m.cluster(term, new(controllerv1.StatusResponse))
	metricspage.Check(t, "netcraq controller", m.registry)
}
