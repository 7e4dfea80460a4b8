package reconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// story is a history with a change of every kind; after each part of it the cluster has time to settle.
func story(w *world) []func() {
	shard := uint16(0)
	return []func(){
		func() { w.chain(shard)[0].kill() },
		func() { w.add() },
		func() {
			n := w.chain(shard)[len(w.chain(shard))-1]
			n.cut = true
			w.run(200 * ms)
			n.cut = false
		},
		func() { _ = w.try(Drain{w.chain(shard)[1].reg.Name}) },
		func() { _ = w.try(Resize{Shard: 1, Extra: 1}) },
		func() {
			n := w.chain(shard)[1]
			n.kill()
			w.run(30 * ms)
			n.start(false)
		},
	}
}

// TestLeaderIsReplacedBetweenAnyTwoSteps replaces the leader after every so many events, for many such numbers: so that in all between any
// two steps of every kind of change.
func TestLeaderIsReplacedBetweenAnyTwoSteps(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		for every := range 12 {
			t.Run(fmt.Sprintf("replicas %d, every %d events", replicas, 500+37*every), func(t *testing.T) {
				w := formed(t, uint64(every), 5, 4, replicas)
				for _, part := range story(w) {
					if replicas == 1 && len(w.chain(0)) < 2 {
						part = func() { _ = w.try(Drain{w.chain(0)[0].reg.Name}) }
					}
					events := 0
					w.hook = func() {
						if events++; events%(500+37*every) == 0 {
							w.elect()
						}
					}
					part()
					w.run(time.Duration(w.rng.IntN(500)) * ms)
					w.hook = nil
					w.settle()
					w.checkNothingLost()
				}
			})
		}
	}
}

func TestDeadLeaderChangesNothingForClients(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		epochs := fmt.Sprint(w.state.Shards)
		w.ready()
		w.paused = w.now + 5*time.Second // there is no leader
		w.run(3 * time.Second)
		w.paused = 0
		w.elect()
		w.run(time.Second)
		for shard := range w.acked {
			w.quickly(uint16(shard), 10*ms)
		}
		if fmt.Sprint(w.state.Shards) != epochs {
			w.fatalf("another leader, other chains")
		}
		for _, n := range w.nodes {
			if n.until < w.now+20*ms {
				w.fatalf("%s has no lease", n.reg.Name)
			}
		}
	})
}

func TestNodeFailsWhileNobodyLeads(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		w.paused = w.now + time.Minute
		w.nodes[w.rng.IntN(4)].kill()
		w.run(time.Duration(w.rng.IntN(3000)) * ms)
		w.paused = 0
		w.elect()
		w.run(200 * ms)
		w.ready()
		w.run(50 * ms)
		for shard := range w.acked {
			w.quickly(uint16(shard), 50*ms)
		}
		w.settle()
		w.checkNothingLost()
	})
}

func TestPausedLeaderSuspectsNobody(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		change := w.state.Change
		w.paused = w.now + 10*time.Second
		w.run(12 * time.Second)
		if w.state.Change != change {
			w.fatalf("it changed something")
		}
	})
}

func TestClockOfTheLeaderJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 100 * ms} {
		w := formed(t, 1, 4, 8, 3)
		change, now := w.state.Change, w.now
		w.leader.Tick(now + jump)
		w.do(w.leader)
		if w.leader.Tick(now + jump); w.leader.last != now+jump {
			t.Fatal("no jump")
		}
		w.run(time.Second)
		if w.state.Change != change {
			w.fatalf("a jump of %v changed something", jump)
		}
		w.nodes[0].kill()
		w.settle()
	}
}

func TestLeaderThatHearsNobodySuspectsNobody(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		change := w.state.Change
		for _, n := range w.nodes {
			n.cut = true
		}
		w.run(2 * time.Second)
		for _, n := range w.nodes {
			n.cut = false
		}
		w.run(2 * time.Second)
		if w.state.Change != change {
			w.fatalf("it changed something")
		}
	})
}

func TestStoreIsAway(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		w.store = false
		w.nodes[0].kill()
		w.run(2 * time.Second)
		w.ready()
		w.store = true
		w.run(100 * ms)
		for shard := range w.acked {
			w.quickly(uint16(shard), 150*ms)
		}
		w.settle()
		w.checkNothingLost()
	})
}

func TestDeposedLeaderEnds(t *testing.T) {
	w := formed(t, 1, 4, 8, 3)
	old := w.leader
	w.elect()
	for _, n := range w.nodes[1:] {
		id := n.id()
		old.Heartbeat(w.now, Heartbeat{Node: id, Incarnation: n.reg.Incarnation})
	}
	if err := old.Register(w.now, Registration{Name: "late", Addr: w.nodes[0].reg.Addr, Incarnation: 1, CellBytes: 64}); err == nil {
		t.Error("an address twice")
	}
	if _, err := old.Operate(w.now, Drain{"n1"}); err != nil {
		t.Fatal(err)
	}
	w.do(old)
	w.run(100 * ms)
	if !old.Ended() {
		t.Fatal("it goes on")
	}
	if _, err := old.Operate(w.now, Drain{"n2"}); err == nil || !strings.Contains(err.Error(), "does not lead") {
		t.Error(err)
	}
	old.Tick(w.now)
	if effects := old.Effects(); len(effects) > 0 {
		t.Errorf("%v", effects)
	}
}

// TestAnything lets anything happen at any moment, with messages that are lost, repeated and late, and checks S1 to S3 after every
// event; and that in the end every shard has all the members that it wants.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		replicas := rapid.IntRange(1, 4).Draw(r, "replicas")
		w := formed(t, rapid.Uint64().Draw(r, "seed"), replicas+rapid.IntRange(0, 3).Draw(r, "spare"), 4, replicas)
		w.lossy = rapid.Bool().Draw(r, "lossy")
		for range rapid.IntRange(1, 12).Draw(r, "faults") {
			w.anything(r)
			w.run(time.Duration(rapid.IntRange(0, 300).Draw(r, "ms")) * ms)
		}
		w.mend()
		w.settle()
		w.checkNothingLost()
	})
}

// anything does something to the cluster.
func (w *world) anything(r *rapid.T) {
	n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(r, "node")]
	name := n.reg.Name
	switch rapid.IntRange(0, 11).Draw(r, "fault") {
	case 0, 1:
		n.cut = !n.cut
	case 2, 3: // the agent alone, or with the plane: both keep their state
		if n.running {
			n.stop()
			n.powered = w.rng.IntN(2) == 0
		} else {
			n.start(true)
		}
	case 4: // the state is gone; skipped if it is the only copy
		if !w.precious(n) {
			n.kill()
			n.start(false)
		}
	case 5:
		n.mute = !n.mute
	case 6:
		w.elect()
	case 7:
		w.paused = w.now + time.Duration(w.rng.IntN(500))*ms
	case 8:
		_ = w.try(Drain{name})
	case 9:
		_ = w.try(Undrain{name})
	case 10:
		_ = w.try(Resize{Shard: uint16(w.rng.IntN(4)), Extra: uint8(w.rng.IntN(3))})
	case 11:
		if len(w.nodes) < 9 {
			w.add()
		}
	}
}

// precious reports whether a node may be the last that has something: others may be suspected at this moment.
func (w *world) precious(n *testNode) bool {
	for shard := range w.acked {
		s := &w.state.Shards[shard]
		others := 0
		for _, id := range s.Members {
			if m := w.node(id); m != n && id != s.Learner && m.id() == id && m.running && !m.cut {
				others++
			}
		}
		if others < 2 {
			return true
		}
	}
	return false
}

// mend ends all faults, and withdraws commands that the present nodes cannot satisfy.
func (w *world) mend() {
	w.lossy, w.paused, w.store = false, 0, true
	for shard := range w.acked {
		w.operate(Resize{Shard: uint16(shard)})
	}
	for _, r := range w.leader.state.Nodes {
		_ = w.try(Undrain{r.Name})
	}
	for _, n := range w.nodes {
		n.cut, n.mute = false, false
		if !n.running {
			n.start(true)
		}
	}
}
