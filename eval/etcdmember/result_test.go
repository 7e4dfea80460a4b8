package etcdmember

import "testing"

// TestChainCountsForUsAlone: the CPU time of the chain counts in full for the members that use it, and not for etcd,
// beside which it idles.
func TestChainCountsForUsAlone(t *testing.T) {
	l := Load{Rounds: []Pair{{
		Member: Window{CPU: CPU{Servers: 20, Chain: 10, Clients: 5}},
		Etcd:   Window{CPU: CPU{Servers: 40, Chain: 20, Clients: 5}},
	}}}
	l.Rounds[0].Member.PerSecond, l.Rounds[0].Etcd.PerSecond = 1, 1
	if l.summarise(); l.CPURatio != 0.75 {
		t.Errorf("CPU ratio %v, want 30/40", l.CPURatio)
	}
}
