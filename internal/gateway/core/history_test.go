package core

import "testing"

// TestHistory: an etcd whose cluster, era or revision is not what was known has another history.
func TestHistory(t *testing.T) {
	at := func(rev int64) Answer { return Answer{Rev: rev} }
	missing, away := Answer{Status: Miss}, Answer{Status: Away}
	for name, c := range map[string]struct {
		era  string // of the gateway
		seen Seen
		want Continuity
	}{
		"as it was":                 {"", Seen{20, at(19), 7, "", 20}, Same},
		"in an era":                 {"a", Seen{20, at(19), 7, "a", 21}, Same},
		"without a revision object": {"", Seen{20, missing, 7, "", 20}, Same},
		"without the chain":         {"", Seen{20, away, 7, "", 20}, Same},
		"another cluster":           {"", Seen{20, at(19), 8, "", 20}, OtherCluster},
		"another era":               {"a", Seen{20, at(19), 7, "b", 30}, OtherEra},
		"the first era":             {"", Seen{20, at(19), 7, "b", 30}, OtherEra},
		"below what etcd had":       {"", Seen{20, away, 7, "", 19}, Older},
		"below the chain":           {"", Seen{10, at(20), 7, "", 19}, Older},
		"the name is gone":          {"a", Seen{20, at(21), 7, "", 21}, Unnamed},
		"of before the era":         {"a", Seen{20, at(21), 7, "", 20}, OtherEra},
	} {
		t.Run(name, func(t *testing.T) {
			h := History{Cluster: 7, Era: c.era}
			if got := h.Compare(&c.seen); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestSessionsBeginInTheirEra: a gateway that does not know yet that etcd was restored gets no session.
func TestSessionsBeginInTheirEra(t *testing.T) {
	for _, era := range []string{"", "a"} {
		g := New(Options{Name: "g", Prefix: "own/"})
		g.Within(era)
		g.Start()
		call := only[EtcdCall](t, g.Effects())
		named := false
		for _, c := range call.Request.If {
			named = named || c.Key == "own/"+EraName && (era == "" && c.Kind == CreateIs && c.Rev == 0 || era != "" && c.Kind == ValueIs && c.Value == era)
		}
		if !named {
			t.Errorf("era %q: conditions %+v", era, call.Request.If)
		}
		g.Returned(call.ID, &Result{Rev: 9}) // etcd has another era
		if g.Serving() || g.Lease() != "g.2" {
			t.Errorf("era %q: the gateway goes on", era)
		}
	}
}
