package reconfig

import (
	"testing"
	"time"
)

// TestChangedTimes (L5): grants last as they were given; a controller that was started anew answers with the longest that was ever
// allowed.
func TestChangedTimes(t *testing.T) {
	const now = time.Second
	state := grantorState()
	state.Settings.LeaseMax = 400 * ms
	long, short := state.Settings.Times(), state.Settings.Times()
	short.Lease, short.LeaseMax = 20*ms, 20*ms
	g := NewGrantor(state, "c0", -time.Minute, 0)
	heartbeat := Heartbeat{Node: 1, Incarnation: 1, Stamp: 5}
	given, _ := g.Heartbeat(now, heartbeat)
	g.Apply(Change{Number: 8, Times: short})
	if left, applied := g.LeaseLeft(now, 8, []NodeID{1}); !applied || left != lasts(given.Lease) {
		t.Errorf("%v left of a grant of %v", left, given.Lease)
	}
	if grant, _ := g.Heartbeat(now+lasts(given.Lease), heartbeat); grant.Lease != short.Lease {
		t.Errorf("a grant of %v after the change", grant.Lease)
	}
	if left, _ := g.LeaseLeft(now+lasts(given.Lease), 8, []NodeID{1}); left != lasts(short.Lease) {
		t.Errorf("%v left of a grant of %v", left, short.Lease)
	}

	change := Change{Number: 8, Times: short}
	if err := state.Check(change); err != nil {
		t.Fatal(err)
	}
	state.Apply(change)
	if left, _ := NewGrantor(state, "c0", now, 0).LeaseLeft(now, 8, []NodeID{1}); left != lasts(long.LeaseMax) {
		t.Errorf("after a restart %v are left of what may have been granted for %v", left, long.LeaseMax)
	}
	change = Change{Number: 9, Times: long}
	change.Times.LeaseMax = 800 * ms
	state.Apply(change)
	state.Apply(Change{Number: 10, Times: short})
	if left, _ := NewGrantor(state, "c0", now, 0).LeaseLeft(now, 10, nil); left != lasts(800*ms) {
		t.Errorf("%v left of what may have been granted for %v", left, 800*ms)
	}
	change.Times.Lease = time.Microsecond
	if err := state.Check(change); err == nil {
		t.Error("a lease shorter than two heartbeats")
	}
}
