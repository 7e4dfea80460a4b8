package reconfig

import "testing"

// TestLease: the grants of a majority count, each controller once, and the lease never gets shorter.
func TestLease(t *testing.T) {
	type grant struct {
		controller string
		Grant
	}
	of3 := func(controller string, stamp uint64) grant { return grant{controller, Grant{stamp, 60, 2, 3}} }
	for _, c := range []struct {
		name   string
		grants []grant
		until  uint64
	}{
		{"nobody", nil, 0},
		{"one of three", []grant{of3("a", 10)}, 0},
		{"one of three, twice", []grant{of3("a", 10), of3("a", 20)}, 0},
		{"two of three", []grant{of3("a", 10), of3("b", 20)}, 70},
		{"three of three", []grant{of3("a", 10), of3("b", 20), of3("c", 30)}, 80},
		{"late", []grant{of3("a", 30), of3("b", 20), of3("a", 10)}, 80},
		{"of a stamp that was not sent", []grant{of3("a", 10), of3("b", 200)}, 0},
		{"one of one", []grant{{"a", Grant{10, 60, 1, 1}}}, 70},
		{"more controllers", []grant{{"a", Grant{10, 60, 1, 1}}, of3("a", 20)}, 70},
		{"of two sets", []grant{of3("a", 10), {"b", Grant{20, 60, 2, 4}}}, 0},
		{"of two sets, each with a majority", []grant{of3("a", 10), of3("b", 20), {"c", Grant{30, 60, 2, 4}}, {"b", Grant{40, 60, 2, 4}}}, 90},
		{"without a majority", []grant{{"a", Grant{10, 60, 0, 1}}}, 0},
		{"of no length", []grant{{"a", Grant{10, 0, 1, 1}}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Lease
			l.Stamp(Heartbeat{}, 100)
			before := uint64(0)
			for _, g := range c.grants {
				if longer := l.Grant(g.controller, g.Grant); longer != (l.Until() > before) {
					t.Errorf("longer: %v, from %d to %d", longer, before, l.Until())
				}
				before = l.Until()
			}
			if l.Until() != c.until {
				t.Errorf("until %d, want %d", l.Until(), c.until)
			}
		})
	}
}

func TestStamp(t *testing.T) {
	var l Lease
	l.Stamp(Heartbeat{}, 10)
	l.Grant("a", Grant{10, 60, 1, 1})
	for now, left := range map[uint64]int64{20: 50, 70: 0, 75: -5} {
		if b := l.Stamp(Heartbeat{Done: 3}, now); b.Stamp != now || int64(b.LeaseLeft) != left || b.Done != 3 {
			t.Errorf("at %d: %+v", now, b)
		}
	}
}

// TestVoid: a stop of the clock ends the lease, and grants for earlier stamps are void.
func TestVoid(t *testing.T) {
	var l Lease
	l.Stamp(Heartbeat{}, 100)
	l.Grant("a", Grant{90, 60, 1, 1})
	if l.Void(0) || l.Until() != 150 {
		t.Errorf("until %d without a stop", l.Until())
	}
	if !l.Void(100) || l.Until() != 0 {
		t.Errorf("until %d after a stop", l.Until())
	}
	if l.Void(100) {
		t.Error("the same stop again")
	}
	if l.Grant("a", Grant{95, 60, 1, 1}) {
		t.Error("a grant for an earlier stamp")
	}
	if !l.Grant("a", Grant{100, 60, 1, 1}) || l.Until() != 160 {
		t.Errorf("until %d after a new grant", l.Until())
	}
}
