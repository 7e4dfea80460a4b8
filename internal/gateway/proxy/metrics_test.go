package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/metricspage"
)

// TestMetricsPage compares docs/metrics.md with a gateway that answered from the chain and from etcd.
func TestMetricsPage(t *testing.T) {
	g := startCached(t, startEtcd(t), startChain(t, 1, 4), Cache{})
	must(g.client.Put(t.Context(), "a", "b"))(t)
	g.hot(t, "a")
	eventually(t, "the gateway counts its key", func() bool { return g.cache.Overview().Placed == 1 })
	metricspage.Check(t, "netcraq gateway", g.server.registry())
	answer := must(http.Get("http://" + g.address + "/proxy/metrics"))(t)
	defer answer.Body.Close()
	text := string(must(io.ReadAll(answer.Body))(t))
	for _, line := range []string{
		"netcraq_gateway_placed_keys 1", "netcraq_gateway_excluded_keys 0", "netcraq_gateway_session 1", "netcraq_gateway_caching 1",
		"netcraq_gateway_gateways 1", `netcraq_gateway_request_seconds_count{by="gateway",kind="write"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/proxy/metrics has no line %q", line)
		}
	}
	if strings.Contains(text, `netcraq_gateway_request_seconds_count{by="chain",kind="read"} 0`) {
		t.Error("the time of the read that the chain answered was not measured")
	}
	if strings.Contains(text, "\netcd_") {
		t.Error("/proxy/metrics has metrics of a member of etcd, which the gateway is not")
	}
}
