package agent

import "testing"

// TestCollectingWaitsForUrgentCopies: a node looks for tombstones when no urgent copy is under way.
func TestCollectingWaitsForUrgentCopies(t *testing.T) {
	plane := listen(t)
	id := NewIdentity()
	id.Shards, id.CellBytes = testOptions.Shards, testOptions.CellBytes
	m, err := newMembership(&Options{Plane: plane, Join: &Join{Identity: id}}, quiet, func() string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCollector(m)
	look := func(want bool) {
		t.Helper()
		if err := c.lookIfDue(); err != nil {
			t.Fatal(err)
		}
		if c.looked.IsZero() == want {
			t.Errorf("it looked: %v, want %v", !want, want)
		}
	}
	m.hurry(false)
	end := m.hurry(true)
	look(false)
	end()
	look(true)
}
