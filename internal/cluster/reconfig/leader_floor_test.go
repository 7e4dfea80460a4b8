package reconfig

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// sweep reports tombstones of shard 0 from one node.
func (w *world) sweep(n *testNode, t Tombstones, pressing bool) {
	w.leader.Swept(w.now, Sweep{Node: n.id(), Incarnation: n.reg.Incarnation, Shards: []Tombstones{t}, Pressing: pressing})
	w.do(w.leader)
}

// settleFloor delivers changes and orders, and checks the stored state and that of each member.
func (w *world) settleFloor(floor, bar uint64) {
	w.t.Helper()
	w.run(200 * ms)
	if s := &w.state.Shards[0]; s.Floor != floor || s.Bar != bar {
		w.fatalf("floor %d and bar %d are stored, want %d and %d", s.Floor, s.Bar, floor, bar)
	}
	for _, n := range w.chain(0) {
		if c := n.configs[0]; c.Floor != floor || c.Bar != bar {
			w.fatalf("%s has floor %d and bar %d, want %d and %d", n.reg.Name, c.Floor, c.Bar, floor, bar)
		}
	}
}

// TestFloorRisesInTwoSteps is G2: first the floor, when the head reports enough tombstones and all members are known to
// take floors; then the bar, when the head reports in the same epoch that everything below is drained.
func TestFloorRisesInTwoSteps(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 1, 3)
		chain, epoch := w.chain(0), w.state.Shards[0].Epoch
		many := Tombstones{Epoch: epoch, Count: raiseFrom, Highest: 70}
		w.sweep(chain[0], many, false)
		w.settleFloor(0, 0) // nothing is known of the others
		for _, n := range chain[1:] {
			w.sweep(n, many, false)
		}
		w.settleFloor(0, 0) // no report of the head
		few, late := many, many
		few.Count, late.Epoch = raiseFrom-1, epoch-1
		w.sweep(chain[0], few, false)
		w.sweep(chain[0], late, false)
		w.settleFloor(0, 0)
		w.sweep(chain[0], many, false)
		w.settleFloor(70, 0)
		later, wrong := Tombstones{Epoch: epoch, Count: raiseFrom, Highest: 90}, Tombstones{Epoch: epoch, Drained: 69}
		w.sweep(chain[0], later, false) // one step after the other
		w.sweep(chain[0], wrong, false)
		w.sweep(chain[1], Tombstones{Epoch: epoch, Drained: 70}, false)
		w.settleFloor(70, 0)
		w.sweep(chain[0], Tombstones{Epoch: epoch, Drained: 70}, false)
		w.settleFloor(70, 70)
		if s := &w.state.Shards[0]; s.Swept != epoch {
			w.fatalf("the bar rose in epoch %d, and %d is stored (G5)", epoch, s.Swept)
		}
		few.Highest = 91
		w.sweep(chain[0], few, true)
		w.settleFloor(91, 70)
	})
}

// TestFloorWaitsForTheChain: a chain that changes or is under-replicated keeps its bar, unless tables fill up. Drained
// shards must be reported again in the next epoch.
func TestFloorWaitsForTheChain(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 1, 3)
		chain := w.chain(0)
		report := func(t Tombstones, pressing bool) {
			t.Epoch = w.state.Shards[0].Epoch
			for _, n := range slices.Backward(w.chain(0)) {
				w.sweep(n, t, pressing)
			}
		}
		report(Tombstones{Count: raiseFrom, Highest: 70}, false)
		w.run(200 * ms)
		drained := Tombstones{Epoch: w.state.Shards[0].Epoch, Drained: 70}
		chain[2].kill()
		if !w.until(10*sureIn, func() bool { return len(w.chain(0)) == 2 }) {
			w.fatalf("the dead node stays in the chain")
		}
		w.run(500 * ms)
		w.sweep(chain[0], drained, false) // from before the change
		w.settleFloor(70, 0)
		report(Tombstones{Drained: 70}, false)
		w.settleFloor(70, 70)
		report(Tombstones{Count: raiseFrom, Highest: 80}, false)
		w.settleFloor(70, 70)
		report(Tombstones{Count: 1, Highest: 80}, true)
		w.settleFloor(80, 70)
		w.checkNothingLost()
	})
}

// TestKeptDataIsOlderThanTheBar is G5: the leader tells a node that comes back since when a kept copy is of use.
func TestKeptDataIsOlderThanTheBar(t *testing.T) {
	w := formed(t, 1, 3, 1, 3)
	s := &w.leader.state.Shards[0]
	s.Born, s.Swept = 2, 7
	if since := w.leader.usefulSince(0); since != 7 {
		t.Errorf("a copy is of use since epoch %d, want 7", since)
	}
	w.leader.options.Without = G5
	if since := w.leader.usefulSince(0); since != 2 {
		t.Errorf("without G5, a copy is of use since epoch %d, want 2", since)
	}
	if s.Born, w.leader.options.Without = 0, 0; w.leader.usefulSince(0) != 0 {
		t.Error("a copy of no known lineage is of use")
	}
}

// TestFloorsNeverGoBack: neither in the state nor at a node.
func TestFloorsNeverGoBack(t *testing.T) {
	old := Shard{Epoch: 3, Members: []NodeID{1, 2}, Floor: 9, Bar: 5, Swept: 2}
	for _, c := range []struct {
		name string
		next func(*Shard)
		ok   bool
	}{
		{"as it was", func(*Shard) {}, true},
		{"floor rises", func(s *Shard) { s.Floor = 10 }, true},
		{"bar rises", func(s *Shard) { s.Bar, s.Swept = 9, 3 }, true},
		{"floor goes back", func(s *Shard) { s.Floor = 8 }, false},
		{"bar goes back", func(s *Shard) { s.Bar = 4 }, false},
		{"bar above the floor", func(s *Shard) { s.Bar = 10 }, false},
		{"swept in an epoch to come", func(s *Shard) { s.Swept = 4 }, false},
	} {
		next := old
		if c.next(&next); (next.follows(&old) == nil) != c.ok {
			t.Errorf("%s: %v", c.name, next.follows(&old))
		}
	}
	for floor, next := range map[uint64]uint64{0: lineageVersions, 1: lineageVersions, lineageVersions: 2 * lineageVersions, lineageVersions + 5: 2 * lineageVersions} {
		if NextLineage(floor) != next {
			t.Errorf("after floor %d comes %d, want %d (G6)", floor, NextLineage(floor), next)
		}
	}
}

// TestRestoredFloor is G7: the leader raises all floors when an operator asks for it, as soon as all members are known to
// take floors. It accepts a repetition only when the members have it.
func TestRestoredFloor(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 1, 3)
		const floor = 5 * lineageVersions
		refused := func(want string) {
			t.Helper()
			if _, err := w.leader.Operate(w.now, RaiseFloor{floor}); err == nil || !strings.Contains(err.Error(), want) {
				w.fatalf("the leader says %v, not %q", err, want)
			}
		}
		refused("takes no floors")
		for _, n := range w.chain(0) {
			w.sweep(n, Tombstones{Epoch: w.state.Shards[0].Epoch}, false)
		}
		w.operate(RaiseFloor{floor})
		if w.state.Shards[0].Floor == floor {
			refused("is changing")
		}
		w.settleFloor(floor, 0)
		w.operate(RaiseFloor{floor - 1})
		w.settleFloor(floor, 0)
		if _, err := w.leader.Operate(w.now, RaiseFloor{1 << 63}); err == nil {
			w.fatalf("a floor without room above it is accepted")
		}
	})
}

// TestErasOfRestores: a floor is above the backup's versions and all of its lineage, and above those of an earlier restore
// of any backup.
func TestErasOfRestores(t *testing.T) {
	day := time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)
	first := RestoredFloor(70, day)
	for _, c := range []struct {
		highest uint64
		at      time.Time
		above   uint64
	}{
		{70, day, 1 << 40},
		{70, time.Time{}, 70},                               // a clock that is wrong: still above the backup
		{70, day.Add(restoreEvery), first + 1<<40 - 1},      // the same backup again, after everything was lost again
		{first + 9, day.Add(-time.Hour), first + 1<<40 - 1}, // a backup of the restored cluster, on a clock that was set back
	} {
		if floor := RestoredFloor(c.highest, c.at); floor <= c.above || floor > maxFloor {
			t.Errorf("highest %d at %v: floor %d, want above %d", c.highest, c.at, floor, c.above)
		}
	}
	if RestoredFloor(1<<63, day) <= maxFloor {
		t.Error("a version that cannot be gives a floor")
	}
}
