package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/api/agentv1"
)

// TestReach: a node says which of the other members of its chains answer on the data plane's port, and gives its
// metrics.
func TestReach(t *testing.T) {
	a, b, c := listen(t), listen(t), listen(t)
	cluster := clusterOf(a.Addr(), b.Addr(), c.Addr())
	agent := configured(t, Options{Name: "a", Cluster: cluster, Plane: a})
	configured(t, Options{Name: "b", Cluster: cluster, Plane: b})
	s := &service{agent: agent, plane: a}
	reach := func() (answering []string) {
		t.Helper()
		answer, err := s.Reach(t.Context(), &agentv1.ReachRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.GetWays()) != 2 {
			t.Errorf("%v: want the two others", answer)
		}
		for _, w := range answer.GetWays() {
			if w.GetAnswers() {
				answering = append(answering, w.GetAddr())
			}
		}
		return answering
	}
	want := []string{b.Addr().String(), c.Addr().String()}
	slices.SortFunc(want, func(x, y string) int { return netip.MustParseAddrPort(x).Compare(netip.MustParseAddrPort(y)) })
	eventually(t, "both others answer", func() bool { return slices.Equal(reach(), want) })
	c.Close()
	if got := reach(); slices.Contains(got, c.Addr().String()) {
		t.Errorf("%v answers, and is closed", c.Addr())
	}
	answer, err := s.Metrics(t.Context(), &agentv1.MetricsRequest{})
	if err != nil || !strings.Contains(string(answer.GetPage()), `netcraq_node_info{`) {
		t.Errorf("%v: %s", err, answer.GetPage())
	}
}
