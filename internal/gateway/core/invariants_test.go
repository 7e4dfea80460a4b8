package core

import "testing"

// TestCheckInvariants breaks what holds of a gateway with a session, one thing at a time.
func TestCheckInvariants(t *testing.T) {
	for what, break1 := range map[string]func(l *life, w *write){
		"":                            func(*life, *write) {},
		"more acknowledged than done": func(l *life, _ *write) { l.acked = 4 },
		"more done than seen":         func(l *life, _ *write) { l.follows = 6 },
		"a change of the future":      func(l *life, _ *write) { l.foreign = 6 },
		"changes out of order":        func(l *life, _ *write) { l.changes = []Change{{Rev: 5}, {Rev: 4}} },
		"a change not seen":           func(l *life, _ *write) { l.changes = []Change{{Rev: 6}} },
		"nothing placed, and closed":  func(l *life, _ *write) { l.free, l.closed = true, true },
		"a write of another session":  func(_ *life, w *write) { w.life = new(life) },
		"a write of another key":      func(_ *life, w *write) { w.keys = []string{"b"} },
		"a write found by no key":     func(_ *life, w *write) { w.keys = append(w.keys, "b") },
		"a range without spans":       func(_ *life, w *write) { w.txn.Spans = nil },
	} {
		l := &life{seen: 5, foreign: 5, follows: 3, acked: 2, changes: []Change{{Rev: 4}, {Rev: 5}}}
		w := &write{life: l, keys: []string{"a"}, txn: &Txn{Spans: []Span{{From: "a", End: "c"}}}}
		l.keys = map[string]*own{"a": {under: map[*write]bool{w: true}}}
		l.ranged = map[*write]bool{w: true}
		break1(l, w)
		g := &Gateway{life: l}
		if err := g.CheckInvariants(); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
