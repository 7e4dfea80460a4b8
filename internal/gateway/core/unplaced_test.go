package core

import (
	"slices"
	"testing"
)

// TestWithoutASession: answers of a gateway without a session are shown if nothing was placed at their revision or after it.
func TestWithoutASession(t *testing.T) {
	g := New(Options{Name: "g", Prefix: "own/"})
	g.Looked(20, false, false)
	if g.Shows(Answers, 20) || g.Shows(Events, 20) {
		t.Error("a key is placed, and nothing is pushed")
	}
	g.Looked(30, true, false)
	g.Looked(40, false, false)
	g.Looked(25, true, false) // by a member that is behind
	for rev, want := range map[int64]bool{20: true, 30: true, 31: false, 40: false} {
		if g.Shows(Answers, rev) != want {
			t.Errorf("revision %d is shown: %v", rev, !want)
		}
	}
}

// TestUnplaced: a gateway without a session writes if the count says that nothing is placed, or if no gateway has
// used etcd: the name of a chain does not count.
func TestUnplaced(t *testing.T) {
	none, some := CountOf(0, "era"), CountOf(10, "era")
	for name, c := range map[string]struct {
		kvs  map[string]string
		want bool
	}{
		"fresh":                {nil, true},
		"a client's keys":      {map[string]string{"": "", "own": "", "own0": "", "~": ""}, true},
		"the chain's name":     {map[string]string{"own/chain": "1 a"}, true},
		"none":                 {map[string]string{"own/directory.count": none, "own/session/g.1": ""}, true},
		"none, of no era":      {map[string]string{"own/directory.count": CountOf(0, ""), "own/began": ""}, true},
		"one":                  {map[string]string{"own/directory.count": CountOf(1, "")}, false},
		"ten":                  {map[string]string{"own/directory.count": some}, false},
		"closed":               {map[string]string{"own/directory.count": closedCount + " era"}, false},
		"deleted":              {map[string]string{"own/directory/": "", "own/era": "era"}, false},
		"all but a session":    {map[string]string{"own/session/g.1": ""}, false},
		"all but a revision":   {map[string]string{"own/ack/g.1": "", "own/chain": ""}, false},
		"all but an exclusion": {map[string]string{"own/excluded/k": ""}, false},
	} {
		unused := New(Options{Prefix: "own/"}).Unplaced()
		if got := slices.ContainsFunc(unused, func(all []Cond) bool { return hold(all, c.kvs) }); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUnplacedAfterASession: a gateway that has had a session does not take etcd for unused when its keys are gone.
func TestUnplacedAfterASession(t *testing.T) {
	g := New(Options{Name: "g", Prefix: "own/"})
	unplaced := func(kvs map[string]string) bool {
		return slices.ContainsFunc(g.IfUnplaced(), func(all []Cond) bool { return hold(all, kvs) })
	}
	g.Start()
	if !unplaced(nil) {
		t.Error("no gateway has used etcd")
	}
	for _, e := range g.Effects() {
		if call, is := e.(EtcdCall); is {
			g.Returned(call.ID, &Result{Held: true, KVs: map[string]KV{"own/" + SessionPrefix + "g.1": {Create: 2, Mod: 2}}})
		}
	}
	g.SessionLost("g.1")
	if unplaced(nil) {
		t.Error("another gateway may read objects")
	}
	if !unplaced(map[string]string{"own/" + CountName: CountOf(0, "")}) {
		t.Error("the directory is empty")
	}
}

// hold executes the conditions of [Unplaced].
func hold(conditions []Cond, kvs map[string]string) bool {
	for _, c := range conditions {
		if value, is := kvs[c.Key]; c.Kind == ExistsBelow && (!is || value >= c.Value) {
			return false
		}
		for key := range kvs {
			if c.Kind == CreateIs && (Span{c.Key, c.End}).Has(key) {
				return false
			}
		}
	}
	return true
}
