package core

import "testing"

// TestCheckInvariants breaks what holds of a member that has joined, one thing at a time.
func TestCheckInvariants(t *testing.T) {
	for what, break1 := range map[string]func(m *Machine){
		"":                        func(*Machine) {},
		"no number":               func(m *Machine) { m.record.Number = 0 },
		"another view":            func(m *Machine) { m.left = 8 },
		"not exposed":             func(m *Machine) { m.exposed = false },
		"not a member":            func(m *Machine) { m.set = []uint64{2} },
		"asked to leave":          func(m *Machine) { m.leaves = []leave{{id: 1}} },
		"a grant, and left":       func(m *Machine) { m.record.View = 0 },
		"reads without a call":    func(m *Machine) { m.bundle.reads = []uint64{1} },
		"reveals out of order":    func(m *Machine) { m.reveals = []reveal{{since: 2}, {since: 1}} },
		"valid without any grant": func(m *Machine) { m.record.View, m.grants, m.valid = 0, nil, true },
	} {
		m := New(Options{Member: 1})
		m.record, m.left, m.set = Record{Number: 3, View: 7}, 7, []uint64{1, 2}
		m.grants = []grant{{asked: 1}}
		break1(m)
		if err := m.CheckInvariants(); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
