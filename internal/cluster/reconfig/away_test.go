package reconfig

import (
	"testing"
	"time"
)

// depart ends the agent of a node, whose data plane goes on and answers heartbeats until the agent is back.
func (w *world) depart(n *testNode) {
	id, incarnation := n.id(), n.reg.Incarnation
	n.stop()
	w.after(2*ms, func() { // what it sent arrives before
		w.tell(func(l *Leader) { l.Departed(w.now, id, incarnation) })
	})
	var answer func()
	answer = func() {
		if n.running {
			return
		}
		w.tell(func(l *Leader) {
			l.Asked(w.now)
			l.Alive(w.now, id, incarnation)
		})
		w.after(10*ms, answer)
	}
	answer()
}

// announce lets the agent of a node end as soon as the leader says that no change needs it.
func (w *world) announce(n *testNode) {
	w.logf("agent of %s announces its end", n.reg.Name)
	n.departs = func() { w.depart(n) }
}

// released ends the agent, if it announced that.
func (n *testNode) released() {
	if n.running && n.departs != nil {
		do := n.departs
		n.departs = nil
		do()
	}
}

// allQuickly bounds the pause of the writes of all shards.
func (w *world) allQuickly(most time.Duration) {
	w.t.Helper()
	for shard := range w.writeGap {
		w.quickly(uint16(shard), most)
	}
}

// wishes are changes that can be made later as well. one is another member of shard 0 than the node whose agent is away,
// and spare is none. Each returns whether the change has been made.
var wishes = map[string]func(w *world, one, spare *testNode) func() bool{
	"a move": func(w *world, one, spare *testNode) func() bool {
		w.operate(MoveShard{0, one.reg.Name, spare.reg.Name})
		return func() bool { return !w.isMember(one, 0) && w.isMember(spare, 0) }
	},
	"a longer chain": func(w *world, _, _ *testNode) func() bool {
		w.operate(Resize{0, 1})
		return func() bool { return len(w.chain(0)) == 4 }
	},
	"longer chains": func(w *world, _, _ *testNode) func() bool {
		w.operate(Replicas{4})
		return func() bool { return len(w.chain(0)) == 4 }
	},
	"a drain": func(w *world, one, _ *testNode) func() bool {
		w.operate(Drain{one.reg.Name})
		return func() bool { return !w.isMember(one, 0) }
	},
	"tombstones": func(w *world, _, _ *testNode) func() bool {
		for _, n := range w.nodes {
			w.sweep(n, Tombstones{Shard: 0, Epoch: w.state.Shards[0].Epoch, Highest: 9, Count: raiseFrom}, true)
		}
		return func() bool { return true } // it is reported again
	},
	"a return": func(w *world, one, _ *testNode) func() bool {
		one.cut = false
		return func() bool { return w.isMember(one, 0) }
	},
}

// besideAbsence tries each wish while the agent of a node of shard 0 is away: begin ends the agent and has the wish. No
// write waits, and the node is not suspected. The wish comes true when the agent is back.
func besideAbsence(t *testing.T, begin func(w *world, away *testNode, wish func() (done func() bool)) (done func() bool)) {
	for name, wish := range wishes {
		t.Run(name, func(t *testing.T) {
			seeds(t, func(t *testing.T, seed uint64) {
				w := formed(t, seed, 5, 8, 3)
				w.leader.state.Settings.Sure = 2 * time.Second
				members := w.chain(0)
				at := w.rng.IntN(3)
				away, one := members[at], members[(at+1)%3]
				spare := w.nodes[0]
				for _, n := range w.nodes {
					if !w.isMember(n, 0) {
						spare = n
					}
				}
				if name == "a return" {
					one.cut = true
					w.until(time.Second, func() bool { return !w.isMember(one, 0) })
					w.run(300 * ms)
				}
				w.ready()
				done := begin(w, away, func() func() bool { return wish(w, one, spare) })
				w.run(3 * time.Second)
				w.allQuickly(50 * ms)
				if standing := w.state.Nodes[away.id()].Standing; standing != Up {
					w.fatalf("the node whose agent is away is %v", standing)
				}
				away.start(true)
				if !w.until(time.Minute, done) {
					w.fatalf("the change is not made: %+v", w.state.Shards[0])
				}
				w.settle()
				w.checkNothingLost()
			})
		})
	}
}

// TestChangesWaitForAgents: while the agent of a node is away for a moment and its data plane goes on, no change is
// begun that could be made later: it would stop the writes of shards, and cost the node its chains. It is made when the
// agent is back.
func TestChangesWaitForAgents(t *testing.T) {
	besideAbsence(t, func(w *world, away *testNode, wish func() func() bool) func() bool {
		w.depart(away)
		w.run(50 * ms)
		return wish()
	})
}

// TestAgentsEndBetweenChanges: an agent announces its end at any time while chains change, and ends when the leader
// says so. No write waits for it, and its node is not suspected.
func TestAgentsEndBetweenChanges(t *testing.T) {
	besideAbsence(t, func(w *world, away *testNode, wish func() func() bool) func() bool {
		done := wish()
		w.run(w.delay(100 * ms))
		w.announce(away)
		if !w.until(time.Second, func() bool { return !away.running }) {
			w.fatalf("the agent of %s is not released", away.reg.Name)
		}
		return done
	})
}

// TestCopiesWaitForAgents: a node whose agent is replaced while it copies a shard keeps its place in the chain, also if
// that takes longer than a copy may stand still: to give the copy up would stop writes, and need the agent.
func TestCopiesWaitForAgents(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 1, 3)
		w.leader.state.Settings.Sure = 2 * time.Second
		var target *testNode
		for _, n := range w.nodes {
			if !w.isMember(n, 0) {
				target = n
			}
		}
		w.slowCopy = 200 * ms
		w.ready()
		w.operate(MoveShard{0, w.chain(0)[w.rng.IntN(3)].reg.Name, target.reg.Name})
		if !w.until(time.Second, func() bool { return w.state.Shards[0].Learner == target.id() }) {
			w.fatalf("%s does not join: %+v", target.reg.Name, w.state.Shards[0])
		}
		w.announce(target)
		if !w.until(time.Second, func() bool { return !target.running }) {
			w.fatalf("the agent of %s is not released", target.reg.Name)
		}
		w.run(w.leader.options.StallAfter + 5*time.Second)
		w.allQuickly(50 * ms)
		if standing := w.state.Nodes[target.id()].Standing; standing != Up || w.state.Shards[0].Learner != target.id() {
			w.fatalf("the node whose agent is away is %v: %+v", standing, w.state.Shards[0])
		}
		target.start(true)
		if !w.until(time.Minute, func() bool { return w.isMember(target, 0) && w.state.Shards[0].Learner == 0 }) {
			w.fatalf("%s does not join: %+v", target.reg.Name, w.state.Shards[0])
		}
		w.settle()
		w.checkNothingLost()
	})
}

// TestElectionsWhileAgentsAreAway: a leader that is elected while an agent is away has no inventory of its node. It needs
// none before the agent is back, for the data plane goes on and no write waits.
func TestElectionsWhileAgentsAreAway(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		w.leader.state.Settings.Sure = 2 * time.Second
		away := w.chain(0)[w.rng.IntN(3)]
		w.depart(away)
		w.run(50 * ms)
		w.elect()
		w.leader.state.Settings.Sure = 2 * time.Second
		if !w.until(time.Second, w.leader.allActive) {
			w.fatalf("shards wait for the node whose agent is away")
		}
		w.ready()
		w.run(w.leader.options.ApplyWithin + 3*time.Second)
		w.allQuickly(50 * ms)
		if standing := w.state.Nodes[away.id()].Standing; standing != Up {
			w.fatalf("the node whose agent is away is %v", standing)
		}
		away.start(true)
		w.settle()
		w.checkNothingLost()
	})
}

// TestAgentDepartsDuringAChange: the agent of a member departs when the change of its chain is stored, and before it has
// confirmed it. The chain soon goes on without the node, which is back when its agent is.
func TestAgentDepartsDuringAChange(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 5, 8, 3)
		away := w.chain(0)[w.rng.IntN(3)]
		change := w.state.Change
		w.ready()
		w.operate(Replicas{4})
		if !w.until(time.Second, func() bool { return w.state.Change > change && w.leader.state.Change > change }) {
			w.fatalf("no change is stored")
		}
		w.depart(away)
		w.run(3 * time.Second)
		w.allQuickly(700 * ms)
		away.start(true)
		w.settle()
		if got := len(w.chain(0)); got != 4 {
			w.fatalf("%d members", got)
		}
		w.checkNothingLost()
	})
}

// TestAbsentAgentHoldsUpNoChange: an agent that stays away is not waited for for ever; longer, if it announced its end.
func TestAbsentAgentHoldsUpNoChange(t *testing.T) {
	within := agentSure * testSettings(8, 3).Sure
	for _, announced := range []bool{false, true} {
		w := formed(t, 1, 5, 8, 3)
		away := w.chain(0)[1]
		if w.depart(away); announced {
			away.start(true)
			w.announce(away)
			w.until(time.Second, func() bool { return !away.running })
		}
		w.run(50 * ms)
		w.operate(Drain{away.reg.Name})
		w.run(2 * within)
		if standing := w.state.Nodes[away.id()].Standing; standing.Fenced() == announced {
			w.fatalf("announced %v: the node whose agent was away for %v is %v", announced, 2*within, standing)
		}
		if !w.until(time.Minute, func() bool { return !w.isMember(away, 0) && len(w.chain(0)) == 3 }) {
			w.fatalf("announced %v: %+v", announced, w.state.Shards[0])
		}
		w.checkNothingLost()
	}
}

// TestShortChainsWaitLess: a chain that lacks a member waits for an agent that announced its end no longer than for
// another.
func TestShortChainsWaitLess(t *testing.T) {
	w := formed(t, 1, 3, 1, 3)
	within := agentSure * testSettings(1, 3).Sure
	w.chain(0)[2].kill()
	if !w.until(10*time.Second, func() bool { return len(w.chain(0)) == 2 }) {
		w.fatalf("%+v", w.state.Shards[0])
	}
	w.run(time.Second)
	away, epoch := w.chain(0)[1], w.state.Shards[0].Epoch
	w.announce(away)
	if !w.until(time.Second, func() bool { return !away.running }) {
		w.fatalf("the agent of %s is not released", away.reg.Name)
	}
	w.add()
	w.run(within / 2)
	if w.state.Shards[0].Epoch != epoch {
		w.fatalf("the chain changes while an agent is away: %+v", w.state.Shards[0])
	}
	w.run(3 * within / 2)
	if w.state.Shards[0].Epoch == epoch {
		w.fatalf("the chain lacks a member for %v: %+v", 2*within, w.state.Shards[0])
	}
	w.checkNothingLost()
}
