package reconfig

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPausesAreForgotten(t *testing.T) {
	var p pauses
	p.observe(time.Second, 200*ms, time.Second)
	p.observe(2*time.Second, 100*ms, time.Second) // shorter than the remembered pause
	p.observe(2*time.Second, 5*time.Second, time.Second)
	for _, c := range []struct{ at, want time.Duration }{
		{time.Second, 200 * ms}, {6 * time.Second, 150 * ms}, {11 * time.Second, 100 * ms}, {31 * time.Second, 25 * ms},
		{time.Hour, 0}, {100 * time.Hour, 0},
	} {
		if got := p.left(c.at); got != c.want {
			t.Errorf("at %v: %v, want %v", c.at, got, c.want)
		}
	}
	p.observe(time.Hour, 10*ms, time.Second)
	if got := p.left(time.Hour); got != 10*ms {
		t.Errorf("after all was forgotten: %v", got)
	}
}

func TestBridgeHasBounds(t *testing.T) {
	for _, c := range []struct{ pause, least, most, want time.Duration }{
		{10, 40, 500, 40}, {100, 40, 500, 200}, {400, 40, 500, 500}, {400, 40, 0, 40},
	} {
		if got := bridge(c.pause, c.least, c.most); got != c.want {
			t.Errorf("bridge(%v, %v, %v) = %v, want %v", c.pause, c.least, c.most, got, c.want)
		}
	}
}

// TestGrantsBridgePauses: a controller or a node that pauses now and then has longer grants, and a lease wait knows of them.
func TestGrantsBridgePauses(t *testing.T) {
	g := NewGrantor(grantorState(), "c0", 0, 0)
	now := time.Hour
	heartbeat := func() Grant {
		grant, ok := g.Heartbeat(now, Heartbeat{Node: 1, Incarnation: 1, Stamp: uint64(now)})
		if !ok {
			t.Fatal("no grant")
		}
		return grant
	}
	for range 20 {
		if got := heartbeat().Lease; got != 60*ms {
			t.Fatalf("on a quiet machine %v are granted", got)
		}
		now += 10 * ms
	}
	now += 110 * ms
	if got := heartbeat().Lease; got != 240*ms {
		t.Errorf("after a pause of 120ms, %v are granted", got)
	}
	fenced := *grantorState().Nodes[1]
	fenced.Standing, fenced.FencedBy = Fenced, 8
	g.Apply(Change{Number: 8, Nodes: []Node{fenced}})
	if left, applied := g.LeaseLeft(now, 8, []NodeID{1}); !applied || left != lasts(240*ms) {
		t.Errorf("the answer is %v, %v", left, applied)
	}
	now += time.Minute
	g.Apply(Change{Number: 9, Nodes: []Node{*grantorState().Nodes[1]}})
	if got := heartbeat().Lease; got != 60*ms {
		t.Errorf("a minute later %v are granted", got)
	}
}

// pausing stops a node's agent now and then: its heartbeats come in heaps.
func (n *testNode) pausing(d time.Duration) {
	n.cut = true
	n.after(d, func() { n.cut = false })
}

// TestPausesAreLearned: a node whose agent pauses again and again is suspected a few times at most, and chains stay as long as they are.
func TestPausesAreLearned(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		for range 60 {
			for _, n := range w.nodes {
				if w.rng.IntN(2) == 0 {
					n.pausing(20*ms + w.delay(100*ms))
				}
			}
			w.run(300 * ms)
		}
		suspicions := 0
		for _, e := range w.events {
			if strings.Contains(e, "is suspected: "+heartbeatTimeout) {
				suspicions++
			}
		}
		if suspicions > 5 {
			w.fatalf("%d suspicions", suspicions)
		}
		w.settle()
		w.run(time.Minute)
		w.ready()
		w.nodes[0].kill()
		w.run(200 * ms)
		for shard := range w.acked {
			w.quickly(uint16(shard), 150*ms)
		}
	})
}

// TestLeaderThatPausesSuspectsOnlyTheDead: its own pauses time out no heartbeat, and it still finds failed nodes.
func TestLeaderThatPausesSuspectsOnlyTheDead(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 8, 3)
		change := w.state.Change
		pause := func() {
			w.paused = w.now + 20*ms + w.delay(180*ms)
			w.run(w.paused - w.now + 100*ms + w.delay(300*ms))
		}
		for range 30 {
			pause()
		}
		if w.state.Change != change {
			w.fatalf("it changed something")
		}
		victim := w.nodes[w.rng.IntN(4)]
		victim.kill()
		for range 10 {
			pause()
		}
		if !w.state.Nodes[w.leader.names[victim.reg.Name]].Standing.Fenced() {
			w.fatalf("the dead are not found")
		}
	})
}

// TestChainOfTwoNeedsCertainty: a heartbeat timeout removes a node from a chain of two only after Settings.Sure, and only if
// no other node reaches it.
func TestChainOfTwoNeedsCertainty(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 2, 4, 2)
		epochs := w.state.Shards[0].Epoch
		n := w.chain(0)[w.rng.IntN(2)]
		n.cut = true
		w.run(300 * ms)
		if r := w.state.Nodes[n.id()]; r.Standing != Fenced || w.state.Shards[0].Epoch != epochs {
			w.fatalf("after 300ms of silence: %v, %v", r.Standing, w.state.Shards[0])
		}
		w.run(time.Second)
		if w.state.Shards[0].Epoch != epochs {
			w.fatalf("other nodes reach it: %v", w.state.Shards[0])
		}
		if trouble := w.leader.trouble(w.leader.nodes[n.id()], w.state.Nodes[n.id()]); !strings.Contains(trouble, "reach its data plane") {
			w.fatalf("trouble: %q", trouble)
		}
		n.powered = false
		w.run(sureIn)
		if w.isMember(n, 0) {
			w.fatalf("nobody reaches it: %v", w.state.Shards[0])
		}
		w.run(100 * ms)
		w.ready()
		w.run(100 * ms)
		w.quickly(0, 20*ms)
	})
}

// TestChainOfTwoKeepsNodeThatIsBack: a pause that is taken for a failure costs the chain nothing.
func TestChainOfTwoKeepsNodeThatIsBack(t *testing.T) {
	w := formed(t, 1, 2, 4, 2)
	epoch := w.state.Shards[0].Epoch
	n := w.chain(0)[0]
	for range 5 {
		n.pausing(200 * ms)
		w.run(500 * ms)
	}
	w.settle()
	if w.state.Shards[0].Epoch != epoch {
		w.fatalf("%v", w.state.Shards[0])
	}
}

// TestSilentAgentKeepsItsData: a node whose agent is away for seconds, and whose data plane other nodes reach, is not taken out
// of a chain of two, though orders wait for it.
func TestSilentAgentKeepsItsData(t *testing.T) {
	w := formed(t, 1, 2, 4, 2)
	l := w.leader
	n := l.nodes[1]
	l.state.Settings.Sure = 2 * time.Second
	n.known = false // an order waits for it
	silent := func(d time.Duration) bool {
		l.time += d
		l.listened += d
		n.reached = l.time
		return l.isSure(n.id)
	}
	if silent(l.state.Settings.Sure + time.Second) {
		t.Error("an agent that is restarted costs its chain a copy")
	}
	if !silent(agentSure * l.state.Settings.Sure) {
		t.Error("an agent that stays away holds up its chain for ever")
	}
}

// TestReturningAgentHasTimeForItsOrders: a node whose agent was away for longer than orders may take, while its data plane
// answered, stays in its chain of two. The time for its orders begins when the agent is back.
func TestReturningAgentHasTimeForItsOrders(t *testing.T) {
	for _, refused := range []string{"", "an earlier order was wrong"} {
		w := formed(t, 1, 2, 4, 2)
		n := w.nodes[0]
		id := n.id()
		w.leader.state.Settings.Sure = 2 * time.Second
		w.leader.nodes[id].refused = refused
		for _, one := range w.nodes {
			w.sweep(one, Tombstones{}, false) // it takes floors
		}
		n.cut = true
		w.operate(RaiseFloor{1 << 40})
		for away := time.Duration(0); away < 3*time.Second; away += 10 * ms {
			w.tell(func(l *Leader) {
				l.Asked(w.now)
				l.Alive(w.now, id, n.reg.Incarnation)
			})
			w.run(10 * ms)
		}
		if r := w.leader.nodes[id]; len(r.orders) == 0 || w.state.Nodes[id].Standing != Fenced {
			w.fatalf("%d orders wait for the node, and it is %v", len(r.orders), w.state.Nodes[id].Standing)
		}
		n.cut = false
		if !w.until(time.Second, func() bool {
			for shard := range w.state.Shards {
				if len(w.state.Shards[shard].Members) < 2 || w.leader.nodes[id].convicted {
					w.fatalf("shard %d: %+v", shard, w.state.Shards[shard])
				}
			}
			return w.state.Nodes[id].Standing == Up
		}) {
			w.fatalf("the node is %v", w.state.Nodes[id].Standing)
		}
		w.settle()
		w.checkNothingLost()
	}
}

// TestLateRegistrationNeedsPatience: a late registration of an earlier process takes no node out of its chains that is
// silent for less than its heartbeat timeout. A new leader, which is told of old connections, has never heard the node.
func TestLateRegistrationNeedsPatience(t *testing.T) {
	for _, elected := range []bool{false, true} {
		w := formed(t, 1, 2, 4, 2)
		n, late := w.nodes[0], w.nodes[0].reg
		late.Incarnation++
		w.leader.state.Settings.SuspectMax = 500 * ms
		if elected {
			w.elect()
			w.leader.state.Settings.SuspectMax = 500 * ms
		} else {
			w.leader.nodes[n.id()].pauses.observe(w.leader.time, 200*ms, time.Second)
		}
		n.cut = true
		w.run(ms) // what it sent before arrives
		w.tell(func(l *Leader) {
			if err := l.Register(w.now, late); err != nil {
				t.Error(err)
			}
		})
		w.run(150 * ms)
		if w.leader.gone[n.id()] || len(w.chain(0)) != 2 {
			w.fatalf("a node that was silent for 150 ms counts as one without its state: %+v", w.state.Shards[0])
		}
		n.cut = false
		w.settle()
		if !w.isMember(n, 0) || w.state.Nodes[n.id()].Incarnation != n.reg.Incarnation {
			w.fatalf("the node has not come back")
		}
		w.checkNothingLost()
	}
}

// TestNodeWithStateIsNoNewOne: a late registration of an earlier process replaces the one of the live process, under a
// leader that loses the lead then. When the live process registers with the next leader, it is in good standing only
// after it has left the chains that it was removed from.
func TestNodeWithStateIsNoNewOne(t *testing.T) {
	w := formed(t, 1, 3, 4, 2)
	n, late := w.chain(0)[1], w.chain(0)[1].reg
	id := n.id()
	late.Incarnation++
	n.cut = true
	w.run(ms) // what it sent before arrives
	w.tell(func(l *Leader) {
		if err := l.Register(w.now, late); err != nil {
			t.Error(err)
		}
	})
	if !w.until(10*time.Second, func() bool { return w.state.Nodes[id].Incarnation == late.Incarnation }) {
		w.fatalf("the late registration was not accepted")
	}
	w.elect()
	n.cut = false
	n.greet(n.life)
	returned := false
	w.hook = func() {
		if r := w.state.Nodes[id]; r.Incarnation != n.reg.Incarnation || r.Standing.Fenced() {
			return
		}
		returned = true
		for shard, c := range n.configs {
			if c.Readable() && !slices.Contains(w.state.Shards[shard].Members, id) {
				w.fatalf("it may read shard %d in epoch %d, and is not in the chain", shard, c.Epoch)
			}
		}
	}
	w.settle()
	if !returned {
		w.fatalf("the node has not come back: %+v", w.state.Nodes[id])
	}
	w.checkNothingLost()
}

// TestLateRegistrationLeavesTwo: a late registration of an earlier process, and less silence than Sure, take no node out
// of a chain of two.
func TestLateRegistrationLeavesTwo(t *testing.T) {
	w := formed(t, 1, 2, 4, 2)
	n, late := w.nodes[0], w.nodes[0].reg
	late.Incarnation++
	n.cut = true
	w.run(ms)
	w.tell(func(l *Leader) {
		if err := l.Register(w.now, late); err != nil {
			t.Error(err)
		}
	})
	w.run(w.state.Settings.Sure - 50*ms)
	if len(w.chain(0)) != 2 {
		w.fatalf("the chain is %+v", w.state.Shards[0])
	}
	if !w.until(time.Second, func() bool { return len(w.chain(0)) == 1 }) {
		w.fatalf("a node without its state stays in the chain: %+v", w.state.Shards[0])
	}
}

// TestOnlyNodeReturnsWithoutState: no node is left that the leader hears, and the only one is readmitted all the same.
func TestOnlyNodeReturnsWithoutState(t *testing.T) {
	w := formed(t, 1, 1, 2, 1)
	n := w.nodes[0]
	id := n.id()
	n.kill()
	w.run(ms)
	n.start(false)
	if !w.until(2*time.Second, func() bool {
		r := w.state.Nodes[id]
		return r.Incarnation == n.reg.Incarnation && !r.Standing.Fenced()
	}) {
		w.fatalf("the node is %+v", w.state.Nodes[id])
	}
}

// TestCopyCompletesWhileTheChainChanges: a learner that replaces the tail completes its copy while the change that
// removes the silent head is being stored. That copy is of the epoch before, so the tail stays until the next one.
func TestCopyCompletesWhileTheChainChanges(t *testing.T) {
	w := formed(t, 1, 4, 1, 3)
	w.slowCopy = 10 * time.Second
	l, chain := w.leader, w.chain(0)
	var to *testNode
	for _, n := range w.nodes {
		if !w.isMember(n, 0) {
			to = n
		}
	}
	w.operate(MoveShard{Shard: 0, From: chain[2].reg.Name, To: to.reg.Name})
	if !w.until(time.Second, w.copying) {
		w.fatalf("no copy begins")
	}
	epoch, reported := w.state.Shards[0].Epoch, false
	w.hook = func() {
		if !reported && l.storing && l.draft.touched(0) && l.draft.look(0).Learner != 0 {
			reported = true
			l.progress(l.nodes[to.id()], &Copied{Shard: 0, Epoch: epoch, Objects: 1, Complete: true})
		}
	}
	chain[0].cut = true
	w.until(time.Second, func() bool {
		if s := w.state.Shards[0]; len(complete(&s)) < 2 {
			w.fatalf("the chain is %+v", s)
		}
		return false
	})
	if !reported {
		w.fatalf("no copy completed while the chain changed")
	}
}

// complete lists the members of a shard that hold all of it.
func complete(s *Shard) []NodeID {
	return slices.DeleteFunc(slices.Clone(s.Members), func(id NodeID) bool { return id == s.Learner })
}

func TestOperatorIsSure(t *testing.T) {
	w := formed(t, 1, 2, 4, 2)
	n := w.chain(0)[1]
	if err := w.try(Fail{n.reg.Name}); err == nil {
		t.Fatal("a node that is heard has not failed")
	}
	n.cut = true
	w.run(100 * ms)
	w.operate(Fail{n.reg.Name})
	w.run(100 * ms)
	if w.isMember(n, 0) {
		w.fatalf("%v", w.state.Shards[0])
	}
}

// TestTrustComesBack: a node that was suspected often takes shards again soon after that ended.
func TestTrustComesBack(t *testing.T) {
	w := formed(t, 1, 4, 8, 3)
	l := w.leader
	n := l.nodes[1]
	for range 30 {
		l.noteSuspicion(n, heartbeatTimeout)
		l.time += 100 * ms
	}
	if left := n.distrust - l.time; left > 4*l.options.Retry || left <= 0 {
		t.Errorf("after 30 suspicions it is not trusted for %v", left)
	}
	if text := l.distrusted(n); !strings.Contains(text, heartbeatTimeout) || !strings.Contains(text, "30 times") {
		t.Errorf("%q", text)
	}
	l.time += calmAfter * l.options.Retry
	if text := l.distrusted(n); text != "" {
		t.Errorf("%q", text)
	}
	l.noteSuspicion(n, heartbeatTimeout)
	if n.distrust > l.time || n.fences != 1 {
		t.Errorf("earlier suspicions are remembered: %d, %v", n.fences, n.distrust-l.time)
	}
}

// TestDataPlaneThatAnswersDoesNotTimeOut: neither is one that was not asked; one that was asked in vain is.
func TestDataPlaneThatAnswersDoesNotTimeOut(t *testing.T) {
	w := formed(t, 1, 4, 8, 3)
	n := w.nodes[0]
	id, change := n.id(), w.state.Change
	ask := func(answers bool, rounds int) {
		for range rounds {
			w.tell(func(l *Leader) {
				l.Asked(w.now)
				if answers {
					l.Alive(w.now, id, n.reg.Incarnation)
				}
			})
			w.run(10 * ms)
		}
	}
	ask(true, 5)
	n.cut = true
	ask(true, 200)
	if w.state.Change != change {
		w.fatalf("a node whose data plane answers is suspected")
	}
	if trouble := w.leader.trouble(w.leader.nodes[id], w.state.Nodes[id]); !strings.Contains(trouble, "its agent is silent") {
		w.fatalf("trouble: %q", trouble)
	}
	w.run(200 * ms)
	if w.state.Change != change {
		w.fatalf("a node that was not asked is suspected")
	}
	ask(false, 10)
	if w.state.Nodes[id].Standing != Fenced {
		w.fatalf("a node that was asked in vain is %v", w.state.Nodes[id].Standing)
	}
}
