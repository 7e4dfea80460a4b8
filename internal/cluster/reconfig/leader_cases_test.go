package reconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

func TestOnlyNodeOfAChainFailsAndComesBackWithItsState(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 2, 4, 1)
		n, epoch := w.chain(0)[0], w.state.Shards[0].Epoch
		n.stop()
		n.powered = false
		w.run(3 * time.Second)
		if s := w.state.Shards[0]; s.Epoch != epoch || s.Lost || w.leader.Status().Down == 0 {
			w.fatalf("%v", s)
		}
		n.start(true)
		w.settle()
		if w.chain(0)[0] != n {
			w.fatalf("another has the shard")
		}
		w.ready()
		w.run(50 * ms)
		w.quickly(0, 50*ms)
		w.checkNothingLost()
	})
}

func TestOnlyNodeOfAChainComesBackWithoutItsState(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 2, 4, 1)
		n := w.chain(0)[0]
		n.kill()
		w.run(time.Duration(w.rng.IntN(200)) * ms)
		n.start(false)
		w.run(3 * time.Second)
		s, notes := w.state.Shards[0], strings.Join(w.leader.Status().Notes, "\n")
		if !s.Lost || !strings.Contains(notes, "accept-loss") {
			w.fatalf("%v\n%s", s, notes)
		}
		if _, err := w.leader.Operate(w.now, AcceptLoss{Shard: 9}); err == nil {
			t.Error("there is no shard 9")
		}
		for number := range w.state.Shards {
			if w.state.Shards[number].Lost {
				w.acked[number] = nil
				for _, n := range w.nodes {
					n.verified[number] = 0
				}
				w.operate(AcceptLoss{Shard: uint16(number)})
			}
		}
		w.settle()
		if s := w.state.Shards[0]; s.Floor != NextLineage(0) || s.Bar != 0 {
			w.fatalf("after a loss the floor is %d, the bar %d (G6)", s.Floor, s.Bar)
		}
		if c := w.chain(0)[0].configs[0]; c.Floor != NextLineage(0) {
			w.fatalf("the head of the new chain has floor %d (G6)", c.Floor)
		}
		w.ready()
		w.run(50 * ms)
		w.quickly(0, 50*ms)
	})
}

// operate gives a command that has to be taken.
func (w *world) operate(c Command) {
	w.t.Helper()
	if err := w.try(c); err != nil {
		w.fatalf("%T: %v", c, err)
	}
}

func (w *world) try(c Command) error {
	_, err := w.leader.Operate(w.now, c)
	w.do(w.leader)
	return err
}

// held brings a cluster to where a second node copies a chain of one.
func holding(t *testing.T, seed uint64) (w *world, one, other *testNode) {
	t.Helper()
	w = formed(t, seed, 2, 1, 1)
	w.slowCopy = 200 * ms
	one = w.chain(0)[0]
	w.operate(Replicas{2})
	if !w.until(10*time.Second, func() bool { return w.leader.state.Shards[0].FrozenFor != 0 && w.leader.shards[0].active }) {
		w.fatalf("nobody copies")
	}
	w.run(w.delay(30 * ms))
	return w, one, w.node(w.leader.state.Shards[0].FrozenFor)
}

func TestChainOfOneGrows(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, one, other := holding(t, seed)
		if one.configs[0].State != chain.Frozen {
			w.fatalf("not frozen: %v", one.configs[0])
		}
		w.settle()
		if got := w.chain(0); !slices.Equal(got, []*testNode{one, other}) {
			w.fatalf("%v", w.state.Shards[0])
		}
		w.checkNothingLost()
	})
}

func TestChainOfOneGoesOnAloneWhenTheOtherFails(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, one, other := holding(t, seed)
		other.kill()
		w.run(300 * ms)
		w.ready()
		w.run(100 * ms)
		w.quickly(0, 100*ms)
		if got := w.chain(0); !slices.Equal(got, []*testNode{one}) {
			w.fatalf("%v", w.state.Shards[0])
		}
		w.slowCopy = 0
		w.add()
		w.settle()
		w.checkNothingLost()
	})
}

// TestCopyOfAChainOfOneIsLostBeforeItsNodeJoins restarts the agent of the new member after its membership was stored and
// before the node knows it. The copy of a node that is in no chain does not survive that. The shard moves, or the chain
// grows.
func TestCopyOfAChainOfOneIsLostBeforeItsNodeJoins(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 2, 1, 1)
		one := w.chain(0)[0]
		other := w.nodes[1-slices.Index(w.nodes, one)]
		w.run(20 * ms)
		if seed%2 == 0 {
			w.operate(Replicas{2})
		} else {
			w.operate(MoveShard{0, one.reg.Name, other.reg.Name})
		}
		if !w.until(10*time.Second, func() bool { return w.isMember(other, 0) }) {
			w.fatalf("it does not join")
		}
		other.stop()
		other.start(true)
		w.run(time.Second)
		w.settle()
		w.checkNothingLost()
	})
}

func TestChainOfOneFailsWhileItIsCopied(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w, one, _ := holding(t, seed)
		one.stop()
		one.powered = false
		w.slowCopy = 0
		w.run(500 * ms)
		one.start(true)
		w.settle()
		w.checkNothingLost()
	})
}

func TestFalselySuspectedNodeComesBack(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 8, 3)
		n := w.nodes[w.rng.IntN(3)]
		w.ready()
		n.cut = true // clients still reach it: it serves while its lease lasts
		w.run(150 * ms)
		if !w.state.Nodes[w.leader.names[n.reg.Name]].Standing.Fenced() {
			w.fatalf("not suspected")
		}
		w.run(w.delay(time.Second))
		n.cut = false
		w.settle()
		for shard := range w.acked {
			if !w.isMember(n, uint16(shard)) {
				w.fatalf("not in the chain of shard %d", shard)
			}
			w.quickly(uint16(shard), 300*ms)
		}
		w.checkNothingLost()
	})
}

func TestRestartThatIsNotNoticedChangesNothing(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 4, 3)
		change := w.state.Change
		n := w.nodes[w.rng.IntN(3)]
		n.stop()
		w.run(15 * ms)
		n.start(true)
		w.run(time.Second)
		if w.state.Change != change {
			w.fatalf("it changed something")
		}
	})
}

func TestNodeComesBackWithoutItsState(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 4, 3)
		n := w.nodes[w.rng.IntN(3)]
		before := n.reg.Incarnation
		n.kill()
		w.run(time.Duration(w.rng.IntN(300)) * ms)
		n.start(false)
		w.settle()
		if r := w.state.Nodes[n.id()]; r.Incarnation == before || !w.isMember(n, 0) {
			w.fatalf("%+v", r)
		}
		w.checkNothingLost()
	})
}

func TestNodeIsStartedTwice(t *testing.T) {
	w := formed(t, 1, 3, 4, 3)
	change := w.state.Change
	twin := w.nodes[0].reg
	twin.Incarnation++
	for range 100 {
		w.run(10 * ms)
		if err := w.leader.Register(w.now, twin); err != nil {
			t.Fatal(err)
		}
	}
	if notes := strings.Join(w.leader.Status().Notes, "\n"); w.state.Change != change || !strings.Contains(notes, "started twice") {
		t.Errorf("%s", notes)
	}
}

func TestDrainUndrainRemove(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 16, 2)
		n := w.nodes[w.rng.IntN(4)]
		name := n.reg.Name
		w.ready()
		if err := w.try(Remove{name}); err == nil || !strings.Contains(err.Error(), "drain") {
			w.fatalf("a node in use is removed: %v", err)
		}
		w.operate(Drain{name})
		w.run(30 * ms)
		w.operate(Undrain{name})
		w.run(2 * time.Second)
		w.operate(Drain{name})
		w.settle()
		for shard := range w.acked {
			if w.isMember(n, uint16(shard)) {
				w.fatalf("still in the chain of shard %d", shard)
			}
			w.quickly(uint16(shard), 200*ms)
		}
		w.run(time.Second)
		w.operate(Remove{name})
		w.run(100 * ms)
		n.stop()
		w.settle()
		if err := w.leader.Register(w.now, n.reg); err == nil || !strings.Contains(err.Error(), "removed") {
			w.fatalf("a removed node comes back: %v", err)
		}
		for _, other := range w.nodes {
			if other != n {
				w.operate(Drain{other.reg.Name})
				break
			}
		}
		w.settle()
		for _, other := range w.nodes {
			if err := w.try(Drain{other.reg.Name}); err == nil {
				w.fatalf("of 2 nodes one is drained, with chains of 2")
			}
		}
		w.checkNothingLost()
	})
}

func TestDrainOutlivesASuspicion(t *testing.T) {
	w := formed(t, 1, 4, 4, 2)
	n := w.nodes[0]
	w.operate(Drain{n.reg.Name})
	w.settle()
	n.cut = true
	w.run(time.Second)
	n.cut = false
	w.settle()
	if r := w.state.Nodes[n.id()]; r.Standing != Draining {
		t.Errorf("%v", r.Standing)
	}
}

// What a cordoned machine drained, an operator can take over, and nothing but that undrains what an operator drained.
func TestCordon(t *testing.T) {
	w := formed(t, 1, 4, 4, 2)
	n := w.nodes[0]
	name := n.reg.Name
	standing := func(want Standing) {
		t.Helper()
		w.settle()
		if r := w.state.Nodes[n.id()]; r.Standing != want || (want == Draining) != (len(w.leader.nodes[n.id()].shards) == 0) {
			t.Fatalf("standing %v, want %v; %d shards", r.Standing, want, len(w.leader.nodes[n.id()].shards))
		}
	}
	refused := func(c Command, why string) {
		t.Helper()
		if err := w.try(c); err == nil || !strings.Contains(err.Error(), why) {
			t.Fatalf("%T: %v", c, err)
		}
	}
	w.operate(Cordon{name})
	standing(Draining)
	refused(Cordon{name}, "already")
	refused(Undrain{name}, "uncordon the machine")
	w.operate(Uncordon{name})
	standing(Up)
	refused(Uncordon{name}, "not drained")

	w.operate(Cordon{name})
	standing(Draining)
	w.operate(Drain{name})
	standing(Draining)
	refused(Uncordon{name}, "not drained")
	w.operate(Undrain{name})
	standing(Up)

	w.operate(Drain{name})
	standing(Draining)
	refused(Cordon{name}, "already")
	w.checkNothingLost()
}

// Commands of one change are checked together: each of two drains leaves enough nodes, both do not.
func TestDrainsOfOneChange(t *testing.T) {
	w := formed(t, 1, 3, 4, 2)
	w.ready()
	for _, c := range []Command{Drain{w.nodes[0].reg.Name}, Cordon{w.nodes[1].reg.Name}} {
		if _, err := w.leader.Operate(w.now, c); err != nil {
			t.Fatal(err)
		}
	}
	w.do(w.leader)
	w.settle()
	if left := len(w.leader.usable(0)); left != 2 {
		t.Errorf("%d nodes are left for chains of 2", left)
	}
}

func TestMove(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 16, 3)
		from := w.chain(0)[w.rng.IntN(3)]
		var to *testNode
		for _, n := range w.nodes {
			if !w.isMember(n, 0) {
				to = n
			}
		}
		w.ready()
		w.operate(MoveShard{0, from.reg.Name, to.reg.Name})
		w.run(time.Second)
		w.settle()
		if w.isMember(from, 0) || !w.isMember(to, 0) {
			w.fatalf("%v", w.state.Shards[0])
		}
		w.quickly(0, 100*ms)
		w.checkNothingLost()
		for _, c := range []MoveShard{{0, from.reg.Name, to.reg.Name}, {0, "x", "n1"}, {99, "n1", "n2"}, {0, to.reg.Name, to.reg.Name}} {
			if w.try(c) == nil {
				w.fatalf("%v is taken", c)
			}
		}
	})
}

func TestLongerAndShorterChains(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 5, 4, 2)
		w.operate(Resize{Shard: 1, Extra: 2})
		w.run(time.Second)
		w.settle()
		if got := len(w.chain(1)); got != 4 {
			w.fatalf("%d members", got)
		}
		w.operate(Resize{Shard: 1})
		w.run(time.Second)
		w.settle()
		if got := len(w.chain(1)); got != 2 {
			w.fatalf("%d members", got)
		}
		w.operate(Replicas{3})
		w.run(time.Second)
		w.settle()
		if got := len(w.chain(2)); got != 3 {
			w.fatalf("%d members", got)
		}
		w.checkNothingLost()
		if w.try(Replicas{6}) == nil || w.try(Replicas{0}) == nil || w.try(Resize{Shard: 1, Extra: 200}) == nil {
			w.fatalf("chains of 6 of 5 nodes")
		}
	})
}

func TestLeavingThatIsNotConfirmed(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 1, 3)
		from := w.chain(0)[w.rng.IntN(3)]
		w.ready()
		w.operate(Drain{from.reg.Name})
		w.until(time.Second, w.copying)
		from.mute = true
		w.until(10*time.Second, func() bool { return w.state.Nodes[from.id()].Standing.Fenced() })
		w.run(100 * ms)
		w.ready()
		w.run(100 * ms)
		w.quickly(0, 100*ms)
		from.mute = false
		w.settle()
		w.checkNothingLost()
	})
}

func TestNodeWithoutRoomIsLeftInPeace(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 4, 3)
		w.run(200 * ms)
		small := w.add()
		small.room = 1
		w.nodes[0].kill()
		w.run(5 * time.Second)
		if notes := strings.Join(w.leader.Status().Notes, "\n"); !strings.Contains(notes, "no room for more than 1") {
			w.fatalf("%s", notes)
		}
		w.ready()
		before := w.state.Change
		w.run(10 * time.Second)
		if changes := w.state.Change - before; changes > 30 {
			w.fatalf("%d changes for nothing", changes)
		}
		for shard := range w.acked {
			w.quickly(uint16(shard), 500*ms)
		}
		small.room = 0
		w.settle()
		w.checkNothingLost()
	})
}

func TestTooFewNodesAndDomains(t *testing.T) {
	w := newWorld(t, 1, 0, 4, 3)
	w.state.Settings.Spread, w.leader.state.Settings.Spread = "zone", "zone"
	for i := range 3 {
		w.add().reg.Labels = map[string]string{"zone": fmt.Sprint(i % 2)}
	}
	w.settle()
	notes := func() string { return strings.Join(w.leader.Status().Notes, "\n") }
	if !strings.Contains(notes(), "the same zone") {
		t.Errorf("two zones for chains of 3: %q", notes())
	}
	w.nodes[0].kill()
	w.run(3 * time.Second)
	if !strings.Contains(notes(), "2 nodes can take shards") || w.leader.Status().UnderReplicated != 4 {
		t.Errorf("two nodes for chains of 3: %q", notes())
	}
	w.checkNothingLost()
}

func TestCopiesAreThrottled(t *testing.T) {
	w := formed(t, 1, 3, 64, 2)
	w.leader.options.LearnNode, w.leader.options.LearnPeers = 3, 1
	w.slowCopy = 20 * ms
	w.add()
	w.add()
	most := 0
	w.hook = func() {
		learning := 0
		copies, peers := map[NodeID]int{}, map[NodeID]map[NodeID]bool{}
		for _, s := range w.state.Shards {
			if s.Learner == 0 && s.FrozenFor == 0 {
				continue
			}
			learning++
			target, source := max(s.Learner, s.FrozenFor), s.Members[len(s.Members)-1]
			for _, pair := range [][2]NodeID{{target, source}, {source, target}} {
				copies[pair[0]]++
				if peers[pair[0]] == nil {
					peers[pair[0]] = map[NodeID]bool{}
				}
				peers[pair[0]][pair[1]] = true
			}
		}
		for _, n := range w.nodes {
			if id := n.id(); copies[id] > 3 || len(peers[id]) > 1 {
				w.fatalf("%s takes part in %d copies with %d nodes", n.reg.Name, copies[id], len(peers[id]))
			}
		}
		most = max(most, learning)
	}
	w.run(time.Second)
	w.settle()
	if most != 6 {
		t.Errorf("%d shards were copied at once, and may be 6", most)
	}
	counts := slices.Sorted(maps.Values(countShards(w)))
	if counts[0] < 20 {
		t.Errorf("shares are %v", counts)
	}
}

func countShards(w *world) map[string]int {
	counts := make(map[string]int)
	for shard := range w.acked {
		for _, n := range w.chain(uint16(shard)) {
			counts[n.reg.Name]++
		}
	}
	return counts
}
