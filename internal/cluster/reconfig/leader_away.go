package reconfig

import (
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// An agent may be away while the data plane of its node goes on: it is replaced by another version, or was killed. Reads
// and writes need no agent, but a change of a chain stops the writes of that shard until all its agents have applied it.
// An agent that is to be replaced announces that, and ends when no change needs it. No rule depends on this: an agent
// that ends unannounced costs time only.

// agentSure is how many times Settings.Sure an agent may be silent while orders wait for it and its data plane answers:
// an agent that was killed comes back within seconds, and its node has lost nothing.
const agentSure = 5

// agentAway is the reason to suspect a node whose data plane answers and whose agent does not apply orders.
const agentAway = "its agent is silent, and orders wait for it"

// away returns the time since the last heartbeat of a node's agent, as far as this leader listened.
func (l *Leader) away(n *node) time.Duration { return l.listened - max(n.agentSeen, n.welcomed) }

// returnsWithin returns the time after which nobody expects an agent back that is away.
func (l *Leader) returnsWithin() time.Duration {
	return max(agentSure*l.state.Settings.Sure, l.options.ApplyWithin)
}

// agentHeard reports whether a node's agent has sent its last few heartbeats and goes on, so that it applies orders at
// once. Answers of its data plane do not count.
func (l *Leader) agentHeard(n *node) bool {
	return !n.departed && !n.departing && l.away(n) <= agentBeats*l.patience(n)
}

// announcedLonger is how many times as long an agent is expected back that announced its end: it is being replaced.
const announcedLonger = 3

// agentsReady reports whether a change of a shard's chain that can be made later as well may be made now: no agent of a
// member, or of the other nodes that it concerns, is away or about to be, and expected back. An agent that stays away
// holds up no change for ever, and neither does one that announces its end and goes on. A chain that lacks members
// waits no longer for an announced one than for another: the next failure may cost it more than a pause.
func (l *Leader) agentsReady(number uint16, others ...NodeID) bool {
	s := &l.state.Shards[number]
	short := fullMembers(s) < l.members(s)
	return !slices.ContainsFunc(append(others, s.Members...), func(id NodeID) bool {
		n := l.nodes[id]
		if l.agentHeard(n) {
			return false
		}
		since, within := l.away(n), l.returnsWithin()
		if n.departing {
			since = l.listened - n.announced
			if !short {
				within *= announcedLonger
			}
		}
		return since <= within
	})
}

// departs notes whether an agent announces its end with a heartbeat.
func (l *Leader) departs(n *node, departing bool) {
	if departing && !n.departing {
		n.announced = l.listened
	}
	n.departing = departing
}

// release lets a departing agent end, unless a change needs it. Until the next agent of the node is heard, no change is
// begun that needs it and can wait.
func (l *Leader) release(n *node) {
	if n.departing && !l.ended && !l.needsAgent(n) {
		l.emit(Release{n.id, l.term})
	}
}

// needsAgent reports whether the writes of a shard may soon wait for orders to a node: it has not confirmed those that
// it has, a chain that it is in is not active yet, or a change of one is being stored or waits for that.
func (l *Leader) needsAgent(n *node) bool {
	if !n.known || len(n.orders) > 0 || len(l.suspects) > 0 {
		return true
	}
	for number := range n.shards {
		if !l.shards[number].active || l.state.Shards[number].FrozenFor != 0 || l.trims[number] || l.inChange(number) {
			return true
		}
	}
	if l.storing {
		for _, s := range l.change.Shards {
			if s.FrozenFor == n.id || slices.Contains(s.Members, n.id) {
				return true
			}
		}
	}
	return false
}

// isAway reports whether a node's agent was away for so long that its orders may still be unread.
func (l *Leader) isAway(n *node) bool { return n.departed || l.away(n) > l.applyWithin(n)/2 }

// Departed records that the connection of a node's agent has ended, and that there is no other one.
func (l *Leader) Departed(now time.Duration, id NodeID, incarnation uint64) {
	if n := l.nodes[id]; l.begin(now) && n != nil && l.lives(n, incarnation) {
		n.departed = true
		l.step()
	}
}

// holdsUp reports whether the writes of a shard wait for an agent that has departed, and would not if the node were
// suspected: the shard has two other full members.
func (l *Leader) holdsUp(n *node) bool {
	if !n.departed {
		return false
	}
	for number, o := range n.orders {
		s, run := &l.state.Shards[number], &l.shards[number]
		has := n.has[number]
		if !slices.Contains(s.Members, n.id) {
			if run.active {
				continue // the chain goes on without it
			}
		} else if has.epoch == o.epoch && has.state == chain.Active && o.state == chain.Active {
			continue // it takes part already
		}
		others := 0
		for _, id := range s.Members {
			if id != n.id && id != s.Learner && !l.state.Nodes[id].Standing.Fenced() {
				others++
			}
		}
		if others >= 2 {
			return true
		}
	}
	return false
}
