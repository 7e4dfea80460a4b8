package reconfig

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

func TestChainsAreMadeOnceEnoughNodesHaveJoined(t *testing.T) {
	w := newWorld(t, 1, 2, 16, 3)
	w.run(500 * ms)
	if !w.leader.forming() {
		t.Fatal("chains of 3 are made of 2 nodes")
	}
	w.add()
	w.settle()
	for number, s := range w.state.Shards {
		if s.Epoch != 1 || len(s.Members) != 3 {
			t.Errorf("shard %d: %+v", number, s)
		}
	}
	w.checkNothingLost()
	if w.writes == 0 || len(w.acked[0]) == 0 {
		t.Error("no writes")
	}
}

// formed is a cluster whose chains are made and active.
func formed(t testing.TB, seed uint64, nodes, shards, replicas int) *world {
	t.Helper()
	w := newWorld(t, seed, nodes, shards, replicas)
	w.options.FormWith = nodes
	w.leader.options.FormWith = nodes
	w.settle()
	return w
}

// chain is the members of a shard as stored, head first.
func (w *world) chain(shard uint16) []*testNode {
	var members []*testNode
	for _, id := range w.state.Shards[shard].Members {
		members = append(members, w.node(id))
	}
	return members
}

// sureIn is how long it takes at most to take a node out of a chain of two that is silent (C6).
const sureIn = 600 * ms

func (w *world) isMember(n *testNode, shard uint16) bool { return slices.Contains(w.chain(shard), n) }

// quickly bounds the pause of a shard's writes, and of its clean reads.
func (w *world) quickly(shard uint16, most time.Duration) {
	w.t.Helper()
	if gap := max(w.writeGap[shard], w.now-w.wroteAt[shard]); gap > most {
		w.fatalf("no write went through for %v", gap)
	}
}

// ready forgets the gaps so far.
func (w *world) ready() {
	clear(w.writeGap)
	for shard := range w.wroteAt {
		w.wroteAt[shard] = w.now
	}
}

// seeds runs a scenario with several timings.
func seeds(t *testing.T, scenario func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { scenario(t, seed) })
	}
}

// The cases of CRAQ's membership table.

func failureAt(t *testing.T, place int) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 1, 3)
		victim, epoch := w.chain(0)[place], w.state.Shards[0].Epoch
		survivors := slices.Delete(w.chain(0), place, place+1)
		w.ready()
		victim.kill()
		if !w.until(150*ms, func() bool { return w.state.Shards[0].Epoch == epoch+1 }) {
			w.fatalf("the chain does not change")
		}
		if got := w.chain(0); !slices.Equal(got, survivors) {
			w.fatalf("the survivors have another order")
		}
		w.run(100 * ms)
		w.quickly(0, 100*ms)
		w.settle()
		if w.isMember(victim, 0) {
			w.fatalf("the dead are in the chain")
		}
		w.checkNothingLost()
	})
}

func TestHeadFails(t *testing.T)   { failureAt(t, 0) }
func TestMiddleFails(t *testing.T) { failureAt(t, 1) }
func TestTailFails(t *testing.T)   { failureAt(t, 2) }

// copying reports whether a learner's copy has begun.
func (w *world) copying() bool {
	return w.leader.state.Shards[0].Learner != 0 && w.leader.shards[0].active
}

// whileCopying brings a cluster of 4, with one chain of 3, to where one of its members has failed and the fourth node copies the
// shard as a learner.
func whileCopying(t *testing.T, seed uint64) (w *world, learner *testNode) {
	t.Helper()
	w = formed(t, seed, 4, 1, 3)
	w.slowCopy = 2 * sureIn
	w.chain(0)[w.rng.IntN(3)].kill()
	if !w.until(10*time.Second, w.copying) {
		w.fatalf("nobody copies")
	}
	w.run(w.delay(30 * ms))
	if w.state.Shards[0].Learner == 0 {
		w.fatalf("the copy is complete already")
	}
	return w, w.node(w.state.Shards[0].Learner)
}

// recovers checks that all is well again in the end, with one more node to put into the place of one that is gone.
func (w *world) recovers(longestPause time.Duration) {
	w.t.Helper()
	w.slowCopy = 0
	w.run(150 * ms)
	w.quickly(0, longestPause)
	w.add()
	w.settle()
	w.checkNothingLost()
}

func TestNeighbourBeforeTheJoiningNodeFails(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, learner := whileCopying(t, seed)
		w.ready()
		w.chain(0)[0].kill()
		if !w.until(sureIn, func() bool { return w.state.Shards[0].Learner == 0 && len(w.chain(0)) == 1 }) {
			w.fatalf("a learner is the head: %v", w.state.Shards[0])
		}
		w.recovers(sureIn)
		if !w.isMember(learner, 0) {
			w.fatalf("the learner has not joined again")
		}
	})
}

func TestNeighbourBehindTheJoiningNodeFailsWhichIsTheSourceOfTheCopy(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, learner := whileCopying(t, seed)
		w.ready()
		w.chain(0)[2].kill()
		if !w.until(sureIn, func() bool { return w.state.Shards[0].Learner == 0 && len(w.chain(0)) == 1 }) {
			w.fatalf("a learner is the tail: %v", w.state.Shards[0])
		}
		w.recovers(sureIn)
		if !w.isMember(learner, 0) {
			w.fatalf("the learner has not joined again")
		}
	})
}

func TestSourceOfACopyFailsAndAnotherIsThere(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 5, 1, 4)
		w.slowCopy = 2 * sureIn
		w.chain(0)[1].kill()
		w.until(10*time.Second, w.copying)
		learner := w.state.Shards[0].Learner
		w.run(w.delay(30 * ms))
		w.ready()
		epoch := w.state.Shards[0].Epoch
		w.node(w.leader.shards[0].source).kill()
		w.until(200*ms, func() bool { return w.state.Shards[0].Epoch > epoch })
		if s := w.state.Shards[0]; s.Learner != 0 && s.Learner != learner || w.leader.shards[0].source == 0 && s.Learner != 0 {
			w.fatalf("the copy does not go on: %v", s)
		}
		w.recovers(120 * ms)
	})
}

func TestJoiningNodeFails(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, learner := whileCopying(t, seed)
		w.ready()
		learner.kill()
		if !w.until(200*ms, func() bool { return w.state.Shards[0].Learner == 0 && len(w.chain(0)) == 2 }) {
			w.fatalf("the learner stays: %v", w.state.Shards[0])
		}
		w.recovers(120 * ms)
	})
}

func TestJoiningNodeAgentRestartsDuringTheCopy(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, learner := whileCopying(t, seed)
		learner.stop()
		learner.start(true)
		w.slowCopy = 0
		w.settle()
		if !w.isMember(learner, 0) {
			w.fatalf("the copy does not go on")
		}
		w.checkNothingLost()
	})
}

// Two failures in a row: the second in every part of the change that the first one causes.
func TestSecondFailureDuringTheFirstChange(t *testing.T) {
	parts := map[string]func(w *world, epoch uint32, second *testNode) bool{
		"before it is stored": func(w *world, epoch uint32, _ *testNode) bool { return w.leader.storing },
		"before anybody is frozen": func(w *world, epoch uint32, _ *testNode) bool {
			return w.state.Shards[0].Epoch > epoch
		},
		"while leases are waited for": func(w *world, epoch uint32, second *testNode) bool {
			return second.configs[0].Epoch > epoch && second.configs[0].State == chain.Frozen
		},
		"while others are activated": func(w *world, epoch uint32, second *testNode) bool {
			return slices.ContainsFunc(w.chain(0), func(n *testNode) bool {
				return n != second && n.configs[0].Epoch > epoch && n.configs[0].State == chain.Active
			})
		},
	}
	for part, reached := range parts {
		t.Run(part, func(t *testing.T) {
			seeds(t, func(t *testing.T, seed uint64) {
				w := formed(t, seed, 5, 1, 4)
				first := w.rng.IntN(4)
				second := (first + 1 + w.rng.IntN(3)) % 4
				members, epoch := w.chain(0), w.state.Shards[0].Epoch
				w.ready()
				members[first].kill()
				if !w.until(time.Second, func() bool { return reached(w, epoch, members[second]) }) {
					w.fatalf("not reached")
				}
				members[second].kill()
				w.run(200 * ms)
				w.quickly(0, 200*ms)
				w.add()
				w.settle()
				w.checkNothingLost()
			})
		})
	}
}

func TestBothMembersFailAtOnceAndOneComesBackWithItsState(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 1, 2)
		a, b := w.chain(0)[0], w.chain(0)[1]
		a.stop()
		a.powered = false
		b.stop()
		b.powered = false
		w.run(500 * ms)
		if w.leader.Status().Down != 1 {
			w.fatalf("%+v", w.leader.Status())
		}
		if w.rng.IntN(2) == 0 {
			a, b = b, a
		}
		a.start(true)
		w.run(time.Second)
		if got := w.chain(0); got[0] != a {
			w.fatalf("the chain is %v", w.state.Shards[0])
		}
		w.settleWithout(b)
		b.start(true)
		w.settle()
		w.checkNothingLost()
	})
}
