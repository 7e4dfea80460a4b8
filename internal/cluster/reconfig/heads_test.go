package reconfig

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// headsOf counts the chains that each node heads.
func (w *world) headsOf() map[NodeID]int {
	heads := make(map[NodeID]int)
	for i := range w.state.Shards {
		heads[w.state.Shards[i].Members[0]]++
	}
	return heads
}

// TestHeadsAreGivenBack: a node that was suspected for a moment heads no chain when it is back. The balancer gives it its
// share again, while clients write, and then rests.
func TestHeadsAreGivenBack(t *testing.T) {
	for seed := range uint64(4) {
		w := formed(t, seed, 3, 24, 3)
		victim := w.nodes[2]
		victim.cut = true
		if !w.until(time.Second, func() bool { return !w.isMember(victim, 0) }) {
			w.fatalf("the node is not suspected")
		}
		victim.cut = false
		w.settle()
		id := w.leader.names[victim.reg.Name]
		if heads := w.headsOf()[id]; heads != 0 {
			w.fatalf("the node heads %d chains after its return", heads)
		}
		if notes := strings.Join(w.leader.Status().Notes, "\n"); !strings.Contains(notes, "is head of 0 shards, and its share is 8") {
			w.fatalf("notes: %s", notes)
		}
		b, asked, changes := NewBalancer(BalanceOptions{}), 0, w.state.Change
		w.ready()
		for range 20 {
			w.run(time.Second)
			commands := b.Decide(w.now, w.state, NewLoads())
			if len(commands) > b.options.AtOnce {
				w.fatalf("%d changes at once", len(commands))
			}
			for _, c := range commands {
				w.operate(c)
				asked++
			}
		}
		w.settle()
		for id, heads := range w.headsOf() {
			if heads < 7 || heads > 9 {
				w.fatalf("node %d heads %d of 24 chains: %v", id, heads, w.headsOf())
			}
		}
		if notes := w.leader.Status().Notes; slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "is head of") }) {
			w.fatalf("notes: %v", notes)
		}
		if asked > 8 {
			w.fatalf("%d hand-overs, and the node lacked 8 heads; %d changes", asked, w.state.Change-changes)
		}
		w.quickly(0, 500*ms)
		w.checkNothingLost()
	}
}

// TestHeadsStay: no head steps back while a repair is due, nor from a chain that would be left with one copy.
func TestHeadsStay(t *testing.T) {
	lopsided := func(replicas int) *State {
		s := newLoaded(3, 24, replicas).state
		for i := range s.Shards {
			s.Shards[i].Members = []NodeID{1, 2, 3}[:replicas]
		}
		return s
	}
	for name, c := range map[string]struct {
		replicas int
		change   func(s *State)
		hands    bool
	}{
		"all is well":           {3, func(*State) {}, true},
		"chains of two":         {2, func(*State) {}, false},
		"a node is suspected":   {3, func(s *State) { s.Nodes[3].Standing = Fenced }, false},
		"a shard is copied":     {3, func(s *State) { s.Shards[4].Learner = 2 }, false},
		"a shard is short":      {3, func(s *State) { s.Shards[4].Members = []NodeID{1, 2} }, false},
		"a shard is lost":       {3, func(s *State) { s.Shards[4] = Shard{Lost: true} }, false},
		"the head is drained":   {3, func(s *State) { s.Nodes[1].Standing = Draining }, false},
		"the second is drained": {3, func(s *State) { s.Nodes[2].Standing = Draining }, false},
		"it lacks one": {3, func(s *State) {
			for i := range s.Shards {
				s.Shards[i].Members = [][]NodeID{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}[i%3]
			}
			s.Shards[1].Members = []NodeID{1, 2, 3}
		}, false},
	} {
		s := lopsided(c.replicas)
		c.change(s)
		b, hands := NewBalancer(BalanceOptions{}), 0
		for second := range 20 {
			for _, command := range b.Decide(time.Duration(second)*time.Second, s, NewLoads()) {
				if _, is := command.(HandOver); is {
					hands++
				}
			}
		}
		if (hands > 0) != c.hands {
			t.Errorf("%s: %d hand-overs", name, hands)
		}
	}
}

// TestHeadsWaitForAgents: no head steps back while the agent of a member is away, though its data plane answers: the change
// would wait for that agent, and suspect it. A copy that failed once and was made again does not keep heads where they are.
func TestHeadsWaitForAgents(t *testing.T) {
	w := formed(t, 1, 3, 4, 3)
	w.settle()
	w.ready()
	l := w.leader
	for _, id := range w.state.Shards[0].Members {
		l.nodes[id].failures = 1
	}
	hand := &HandOver{Shard: 0, From: l.name(w.state.Shards[0].Members[0])}
	if err := l.checkHandOver(hand); err != nil {
		w.fatalf("while all agents are heard: %v", err)
	}
	for _, id := range w.state.Shards[0].Members {
		n := l.nodes[id]
		seen, welcomed := n.agentSeen, n.welcomed
		n.agentSeen, n.welcomed = seen-time.Second, seen-time.Second
		if err := l.checkHandOver(hand); err == nil {
			w.fatalf("the agent of %s is away", l.name(id))
		}
		n.agentSeen, n.welcomed = seen, welcomed
	}
}

// TestCommandsOfASuspicion: a command is carried out only if no node that it needs is suspected in the same change.
func TestCommandsOfASuspicion(t *testing.T) {
	for _, hand := range []bool{false, true} {
		w := formed(t, 1, 4, 4, 3)
		w.ready()
		members, l := w.chain(0), w.leader
		spare := w.nodes[slices.IndexFunc(w.nodes, func(n *testNode) bool { return !w.isMember(n, 0) })]
		command, needed := Command(MoveShard{0, members[0].reg.Name, spare.reg.Name}), spare
		if hand {
			command, needed = HandOver{Shard: 0, From: members[0].reg.Name}, members[1]
		}
		l.suspect(l.nodes[needed.id()], heartbeatTimeout)
		w.operate(command)
		w.run(100 * ms)
		dropped := slices.ContainsFunc(w.events, func(e string) bool {
			return strings.Contains(e, "a command is dropped: node "+needed.reg.Name+" is suspected")
		})
		if !dropped || hand && !w.isMember(members[0], 0) {
			w.fatalf("%T needs a suspected node: %+v", command, w.state.Shards[0])
		}
		w.settle()
		w.checkNothingLost()
	}
}

// TestHeadsAreNotPromised: while a node is suspected, no other one gets heads, and none is told that it does.
func TestHeadsAreNotPromised(t *testing.T) {
	s := newLoaded(3, 24, 3).state
	for i := range s.Shards {
		s.Shards[i].Members = []NodeID{1, 2, 3}
	}
	for _, c := range []struct {
		standing Standing
		want     string
	}{{Up, "it gets more, a few at a time"}, {Fenced, "it gets more when no node is suspected"}} {
		s.Nodes[3].Standing = c.standing
		notes := s.headsNotes()
		if len(notes) == 0 || slices.ContainsFunc(notes, func(n string) bool { return !strings.Contains(n, c.want) }) {
			t.Errorf("node 3 is %v: %q", c.standing, notes)
		}
	}
}
