package placement

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOthers(t *testing.T) {
	nodes := func(uses ...uint64) map[string]Use {
		m := make(map[string]Use)
		for i := 0; i < len(uses); i += 2 {
			m[string(rune('a'+i/2))] = Use{uses[i], uses[i+1]}
		}
		return m
	}
	for name, c := range map[string]struct {
		before, now Sample
		want        Use
	}{
		"reads of all nodes, writes of one": {
			Sample{Nodes: nodes(5, 2, 7, 2, 0, 2)}, Sample{Nodes: nodes(15, 12, 107, 12, 3, 11)}, Use{113, 5},
		},
		"without this gateway's": {
			Sample{Nodes: nodes(10, 10), Before: Use{4, 3}, After: Use{5, 3}},
			Sample{Nodes: nodes(30, 20), Before: Use{10, 6}, After: Use{12, 7}},
			Use{20 - 8, (10 - 4) / 2},
		},
		"this gateway did more than was counted": {
			Sample{Nodes: nodes(10, 10)}, Sample{Nodes: nodes(12, 11), After: Use{9, 9}}, Use{},
		},
		"an emptied node counts from zero": {
			Sample{Nodes: nodes(1000, 50, 10, 50)}, Sample{Nodes: nodes(7, 4, 10, 54)}, Use{7, 2},
		},
		"a node that joined":  {Sample{Nodes: nodes(10, 0)}, Sample{Nodes: nodes(11, 0, 500, 0)}, Use{1, 0}},
		"a node that is away": {Sample{Nodes: nodes(10, 0, 500, 0)}, Sample{Nodes: nodes(11, 0)}, Use{1, 0}},
		"no node answers":     {Sample{Nodes: nodes(10, 0)}, Sample{After: Use{3, 0}}, Use{}},
	} {
		if got := c.now.Others(&c.before); got != c.want {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
}

// TestOthersAreNoMoreThanThereWere: whatever nodes lose, miss or restart, no read counts that others did not make.
func TestOthersAreNoMoreThanThereWere(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		counters := make(map[string]Use)
		var own, made, found Use
		var earlier *Sample
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			s := &Sample{Nodes: make(map[string]Use), Before: own}
			for _, name := range names {
				u := counters[name]
				if rapid.IntRange(0, 4).Draw(t, "emptied") == 0 {
					u = Use{}
				}
				mine, theirs := rapid.Uint64Range(0, 9).Draw(t, "mine"), rapid.Uint64Range(0, 9).Draw(t, "theirs")
				own.Reads, made.Reads = own.Reads+mine, made.Reads+theirs
				u.Reads += mine + theirs
				if counters[name] = u; rapid.IntRange(0, 4).Draw(t, "away") > 0 {
					s.Nodes[name] = u
				}
			}
			s.After = own
			if earlier != nil {
				found.Reads += s.Others(earlier).Reads
			}
			if earlier = s; found.Reads > made.Reads {
				t.Fatalf("%d reads are found, and others made %d", found.Reads, made.Reads)
			}
		}
	})
}

func TestOthersKeepAKey(t *testing.T) {
	o := options()
	o.Capacity = o.Size(100)
	for name, others := range map[string]bool{"others read it": true, "nobody reads it": false} {
		m := NewMonitor(10, 7)
		m.Read("k", 100, 0)
		for i := range 100 {
			now := float64(i) / 10
			m.Read("rival", 100, now)
			if i%20 == 19 && others {
				m.Others("k", Use{Reads: 100}, 250, now-2, now)
			}
		}
		d := Choose(o, Placed{"k": 0}, m.Usages(10), 10)
		if stays := !slices.Contains(d.Remove, "k"); stays != others {
			t.Errorf("%s: %+v", name, d)
		}
		e := Explain(o, Placed{"k": 0}, m.Usages(10), "k", 10)
		if want := map[bool]string{true: SourceSwitch, false: SourceGateway}[others]; e.Source != want {
			t.Errorf("%s: the source is %q, not %q", name, e.Source, want)
		}
		if sum := e.Gateway.ReadRate + e.Switch.ReadRate; math.Abs(e.ReadRate-sum) > 1e-9 || others != (e.Switch.ReadRate > 10) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestOthersMakeAKeyKnown: a key that the monitor forgot is known again when others read its object, and not when they
// write it.
func TestOthersMakeAKeyKnown(t *testing.T) {
	m := NewMonitor(10, 7)
	m.Others("written", Use{Writes: 9}, 300, 0, 2)
	m.Others("idle", Use{}, 300, 0, 2)
	m.Others("read", Use{Reads: 9}, 300, 0, 2)
	u := m.Usages(2)
	if len(u) != 1 || u[0].Key != "read" || u[0].Bytes != 300 || u[0].Reads != 9 || u[0].Hits != 9 || u[0].ReadRate <= 0 {
		t.Errorf("%+v", u)
	}
	if e := Explain(options(), Placed{"read": 0}, u, "read", 2); e.Source != SourceSwitch {
		t.Errorf("%+v", e)
	}
	m.Read("read", 100, 2)
	if e := Explain(options(), Placed{"read": 0}, m.Usages(2), "read", 2); e.Source != SourceBoth || e.Reads != 10 || e.Bytes != 100 {
		t.Errorf("%+v", e)
	}
}

// TestTogether: what the nodes counted for the gateway that placed a key has the reads of the other gateways.
func TestTogether(t *testing.T) {
	of := func(placed bool, ours, nodes float64) Explanation {
		e := Explanation{Key: "k", Placed: placed, HitShare: 1}
		e.count(Figures{Reads: ours, ReadRate: ours}, Figures{Reads: nodes, ReadRate: nodes})
		e.Benefit = e.ReadRate
		return e
	}
	for _, c := range []struct{ ours, nodes, others, sum float64 }{
		{10, 0, 5, 15}, {10, 5, 5, 15}, {10, 3, 5, 15}, {10, 8, 5, 18}, {0, 8, 0, 8},
	} {
		all := Together([][]Explanation{{of(false, c.others, 0)}, {of(true, c.ours, c.nodes)}})
		if e := all[0]; len(all) != 1 || !e.Placed || e.Reads != c.sum || e.ReadRate != c.sum || e.Benefit != c.sum || e.HitShare != 1 ||
			e.Gateway.Reads != c.ours+c.others || e.Switch.Reads != c.sum-c.ours-c.others {
			t.Errorf("%+v: %+v", c, all)
		}
	}
}
