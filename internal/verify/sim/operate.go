package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// nodeOf is the machine of a node of the cluster.
func (w *world) nodeOf(id reconfig.NodeID) *node {
	known := w.store.state.Nodes[id]
	if known == nil {
		return nil
	}
	for _, n := range w.nodes {
		if n.name == known.Name {
			return n
		}
	}
	return nil
}

// holders are the members of a shard's chain that hold all of it.
func (w *world) holders(shard uint16) []*node {
	var list []*node
	for _, id := range w.store.state.Shards[shard].Members {
		n := w.nodeOf(id)
		if n != nil && n.up && n.configs[shard].Readable() && w.store.state.Nodes[id].Incarnation == n.incarnation {
			list = append(list, n)
		}
	}
	return list
}

// spare reports whether a node may crash: whether another node that is well has a copy of everything that it holds.
func (w *world) spare(n *node) bool {
	if w.store.writing > 0 {
		return false // perhaps just a change that relies on this node
	}
	for shard := range uint16(w.Shards) {
		holders := w.holders(shard)
		if slices.Contains(holders, n) && !slices.ContainsFunc(holders, func(h *node) bool { return h != n && w.well(h) }) {
			return false
		}
	}
	return true
}

// well reports whether a node and its links to controllers have no fault, so that no leader will suspect it.
func (w *world) well(n *node) bool {
	if n.agent == nil || w.now < max(n.asleep, n.paused) {
		return false
	}
	for _, c := range w.controllers {
		if !w.net.open(control, n.endpoint(), c.endpoint()) || !w.net.open(control, c.endpoint(), n.endpoint()) {
			return false
		}
	}
	return true
}

// tense reports whether some node is precious.
func (w *world) tense() bool { return slices.ContainsFunc(w.nodes, w.precious) }

// precious reports whether a node holds the only copy of a shard. Chains of f+1 survive f failures and no more, so
// nothing may happen to it.
func (w *world) precious(n *node) bool {
	for shard := range uint16(w.Shards) {
		if holders := w.holders(shard); len(holders) == 1 && holders[0] == n {
			return true
		}
	}
	return false
}

func (w *world) leaderOptions() reconfig.Options {
	return reconfig.Options{RepairAfter: w.RepairAfter, Retry: w.RepairAfter / 10, Pace: 1, Without: w.Without.Control}
}

// command lets an operator ask the controller that was elected last.
func (e *nemesis) command(c reconfig.Command) bool {
	leads := e.w.store.leader
	if leads == nil || leads.leader == nil {
		return false
	}
	l := leads.leader
	done := false
	leads.leading(l, func(now time.Duration) {
		_, err := l.Operate(now, c)
		done = err == nil
		e.w.note(every, every, "an operator asks: %T %v, error %v", c, c, err)
	})
	return done
}

func (e *nemesis) join() bool {
	for _, n := range e.w.nodes {
		if !n.joined {
			n.boot()
			return true
		}
	}
	return false
}

func (e *nemesis) drain() bool {
	n := e.node()
	for _, known := range e.w.store.state.Nodes {
		if known.Name == n.name && known.Standing.Draining() {
			return e.command(reconfig.Undrain{Node: n.name})
		}
	}
	return e.command(reconfig.Drain{Node: n.name})
}

func (e *nemesis) move() bool {
	shard := uint16(e.rng.IntN(e.w.Shards))
	members := e.w.store.state.Shards[shard].Members
	if len(members) == 0 {
		return false
	}
	from := e.w.nodeOf(members[e.rng.IntN(len(members))])
	return e.command(reconfig.MoveShard{Shard: shard, From: from.name, To: e.node().name})
}

func (e *nemesis) resize() bool {
	if e.rng.IntN(2) == 0 {
		return e.command(reconfig.Replicas{Members: 2 + e.rng.IntN(min(wire.MaxChain, 4)-1)})
	}
	return e.command(reconfig.Resize{Shard: uint16(e.rng.IntN(e.w.Shards)), Extra: uint8(e.rng.IntN(3))})
}

// retime changes the times of the cluster again and again, by a source of random numbers of its own.
func (w *world) retime() {
	rng := w.stream(5)
	between := func(least, most int) time.Duration { return time.Duration(least + rng.IntN(most-least+1)) }
	var next func()
	next = func() {
		w.after(1+rng.Uint64N(2*uint64(w.Retime)), func() {
			if w.calm {
				return
			}
			t := reconfig.Times{Heartbeat: w.Beat, Lease: w.Beat * between(2, 12), Suspect: w.Beat * between(3, 12)}
			t.LeaseMax, t.SuspectMax = t.Lease*between(1, 4), t.Suspect*between(1, 4)
			t.Sure = t.Suspect * between(1, 6)
			if w.nemesis.command(reconfig.SetTimes{Times: t}) && !w.Quiet.has(Sever) && !w.tense() {
				w.nemesis.parted() // grants of the earlier times last
			}
			next()
		})
	}
	next()
}

// stepBack asks heads to step back again and again: those that the balancer chooses, and any.
func (w *world) stepBack() {
	rng := w.stream(8)
	balancer := reconfig.NewBalancer(reconfig.BalanceOptions{After: 1})
	var next func()
	next = func() {
		w.after(1+rng.Uint64N(2*uint64(w.StepBack)), func() {
			if w.calm {
				return
			}
			commands := balancer.Decide(time.Duration(w.now), &w.store.state, reconfig.NewLoads())
			shard := uint16(rng.IntN(w.Shards))
			if members := w.store.state.Shards[shard].Members; len(members) > 0 && len(commands) == 0 {
				commands = append(commands, reconfig.HandOver{Shard: shard, From: w.store.state.Nodes[members[0]].Name})
			}
			for _, c := range commands {
				if w.nemesis.command(c) {
					w.result.StepBacks++
				}
			}
			next()
		})
	}
	next()
}

// unwhole says why the cluster is not as it should be, and of which shard it is true; empty: it is.
func (w *world) unwhole() (shard int, why string) {
	s := &w.store.state
	usable := 0
	for _, known := range s.Nodes {
		if known.Standing == reconfig.Up {
			usable++
		}
	}
	for shard := range s.Shards {
		at := &s.Shards[shard]
		want := min(s.Settings.Replicas+int(at.Extra), usable, wire.MaxChain)
		switch members := w.watch.settled(uint16(shard)); {
		case at.Lost, at.Epoch == 0 && usable < s.Settings.Replicas:
		case at.Learner != 0 || at.FrozenFor != 0:
			return shard, "it is being copied"
		case members == nil:
			return shard, fmt.Sprintf("it is not active in epoch %d", at.Epoch)
		case len(members) < want:
			return shard, fmt.Sprintf("it has %d members instead of %d", len(members), want)
		}
	}
	return every, ""
}
