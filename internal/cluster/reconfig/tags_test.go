package reconfig

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// welcomeAll tells the nodes of another phase of tags, as controllers do when they apply the change.
func (w *world) welcomeAll(c Change) {
	if c.Tags != (TagStep{}) {
		for _, n := range w.nodes {
			n.welcome(c.Tags)
		}
	}
}

// welcome brings the node to a phase after a while. A message that is lost comes with the next connection.
func (n *testNode) welcome(t TagStep) {
	life := n.life
	n.after(n.delay(n.slowTags), func() {
		switch {
		case n.life != life || !n.running || t.Since <= n.tags.Since:
		case n.cut || n.mute:
			n.welcome(t)
		default:
			n.tags = t
		}
	})
}

// understands reports whether a message of one node is taken by another one (T6).
func (n *testNode) understands(o *testNode) bool {
	switch o.tags.Phase {
	case wire.TagsOff:
		return !n.tags.Phase.Sends()
	case wire.TagsRequired:
		return n.tags.Phase.Sends()
	}
	return true
}

// checkTags checks that the members of every chain that serves understand each other.
func (w *world) checkTags() {
	for shard := range w.state.Shards {
		for _, id := range w.state.Shards[shard].Members {
			for _, other := range w.state.Shards[shard].Members {
				a, b := w.node(id), w.node(other)
				serve := a.configs[shard].State == chain.Active && b.configs[shard].State == chain.Active
				fenced := w.state.Nodes[id].Standing.Fenced() || w.state.Nodes[other].Standing.Fenced()
				if serve && !fenced && a.running && b.running && !a.understands(b) {
					w.fatalf("shard %d: %s, in phase %v, sends %s, in phase %v, what it does not take", shard, a.reg.Name,
						a.tags.Phase, b.reg.Name, b.tags.Phase)
				}
			}
		}
	}
}

// tagged waits until all nodes that run are in the last phase.
func (w *world) tagged(on bool) {
	w.t.Helper()
	want := wire.TagsOff
	if on {
		want = wire.TagsRequired
	}
	done := func() bool {
		return w.state.Settings.Tags.Phase == want &&
			!slices.ContainsFunc(w.nodes, func(n *testNode) bool { return n.running && n.tags.Since != w.state.Settings.Tags.Since })
	}
	if !w.until(time.Minute, done) {
		w.fatalf("tags are %+v, awaited %v", w.state.Settings.Tags, w.leader.awaitedNames())
	}
}

// TestTagsInPhases (T6): while nodes and leaders fail, come back, join and leave, tags are switched on and off, and no two
// members of a chain are ever more than a phase apart.
func TestTagsInPhases(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 5, 4, 3)
		w.hook, w.slowTags = w.checkTags, 300*ms // much longer than the phases last, but for the nodes
		w.options.TagsRest, w.leader.options.TagsRest = 10*ms, 10*ms
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, on := range []bool{true, false, true, false} {
			w.operate(SetTags{On: on})
			w.run(time.Duration(rng.IntN(int(3 * time.Second))))
			switch rng.IntN(5) {
			case 0:
				victim := w.nodes[rng.IntN(len(w.nodes))]
				victim.kill()
				w.run(time.Duration(rng.IntN(int(4 * time.Second))))
				victim.start(false)
			case 1:
				victim := w.nodes[rng.IntN(len(w.nodes))]
				victim.stop()
				w.run(time.Duration(rng.IntN(int(4 * time.Second))))
				victim.start(true)
			case 2:
				w.elect()
			case 3:
				n := w.add()
				n.cut = true // it asked, and cannot register
				w.run(time.Duration(rng.IntN(int(4 * time.Second))))
				n.cut = false
			case 4: // to and fro
				w.operate(SetTags{On: !on})
				w.run(time.Duration(rng.IntN(int(2 * time.Second))))
				w.operate(SetTags{On: on})
			}
			w.tagged(on)
			w.settle()
		}
		w.checkNothingLost()
	})
}

// TestTagsWaitForEveryNode: a node that does not confirm holds up the next phase, and is named; one that cannot go along at
// all has the command refused.
func TestTagsWaitForEveryNode(t *testing.T) {
	w := formed(t, 1, 3, 1, 3)
	w.nodes[1].mute = true
	w.operate(SetTags{On: true})
	w.run(10 * time.Second)
	if phase, names := w.state.Settings.Tags.Phase, w.leader.awaitedNames(); phase != wire.TagsOff || !slices.Equal(names, []string{"n2"}) {
		t.Errorf("phase %v, waiting for %v", phase, names)
	}
	w.nodes[1].mute = false
	w.tagged(true)
	w.leader.nodes[2].noTags = "it is a switch"
	if _, err := w.leader.Operate(w.now, SetTags{On: true}); err == nil {
		t.Error("a node that can have no tags is to have some")
	}
}
