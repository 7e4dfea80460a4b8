package core

import "testing"

// TestWithoutASession: answers of a gateway without a session are shown if nothing was placed at their revision or after it.
func TestWithoutASession(t *testing.T) {
	g := New(Options{Name: "g", Prefix: "own/"})
	g.Looked(20, 1, false)
	if g.Shows(Answers, 20) || g.Shows(Events, 20) {
		t.Error("a key is placed, and nothing is pushed")
	}
	g.Looked(30, 0, false)
	g.Looked(40, 1, false)
	g.Looked(25, 0, false) // by a member that is behind
	for rev, want := range map[int64]bool{20: true, 30: true, 31: false, 40: false} {
		if g.Shows(Answers, rev) != want {
			t.Errorf("revision %d is shown: %v", rev, !want)
		}
	}
	conditions := g.IfUnplaced()
	if c := conditions[0]; len(conditions) != 1 || c.Kind != CreateIs || c.Rev != 0 {
		t.Fatalf("%+v", conditions)
	}
	entries := Span{conditions[0].Key, conditions[0].End}
	for _, key := range []string{"", "a", "\xff\xff"} {
		if !entries.Has("own/" + DirectoryPrefix + key) {
			t.Errorf("the entry of key %q is left out", key)
		}
	}
	if entries.Has("own/" + SessionPrefix + "g.1") {
		t.Error("a session counts as an entry")
	}
}
