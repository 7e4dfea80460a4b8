package reconfig

import (
	"fmt"
	"slices"
	"time"
)

// C6: silence alone leaves a chain two complete members. A node that is suspected gets no grants, but to take it out
// of a chain that would
// have fewer than two without it needs certainty.

// isSure reports whether a suspected node may be taken out of a chain of two: its state is gone, it did not apply its orders, an
// operator said so; or it was
// silent for Settings.Sure, and no other node reached its data plane in that time. One that is reached, but does not
// do what the cluster waits for,
// is of no use either.
func (l *Leader) isSure(id NodeID) bool {
	n := l.nodes[id]
	if l.gone[id] || n.convicted {
		return true
	}
	if waits := len(n.orders) > 0 || !n.known; waits && l.away(n) > max(l.state.Settings.Sure, l.options.ApplyWithin) {
		return true
	}
	return l.silence(n) > l.state.Settings.Sure && !l.isReached(n)
}

// away is how long a node's agent was not heard, in time in which this leader listened.
func (l *Leader) away(n *node) time.Duration { return l.listened - max(n.agentSeen, n.welcomed) }

// agentAway is why a node is suspected whose data plane answers, and whose agent does not do what the cluster waits
// for.
const agentAway = "its agent is silent, and orders wait for it"

// spares reports whether C6 forbids now what a shard's chain would be without the dead.
func (d *draft) spares(complete []NodeID, dead func(NodeID) bool) bool {
	if d.l.options.Without&C6 != 0 {
		return false
	}
	left, unsure := 0, false
	for _, id := range complete {
		if !dead(id) {
			left++
		} else if !d.l.isSure(id) {
			unsure = true
		}
	}
	return left < 2 && unsure
}

// probeEvery is the time between two questions to other nodes whether they reach one that is silent.
func (l *Leader) probeEvery() time.Duration { return l.state.Settings.Sure / 8 }

// isReached reports whether another node reached the data plane of one that is silent, of late.
func (l *Leader) isReached(n *node) bool {
	return n.reached != 0 && l.time-n.reached <= l.state.Settings.Sure
}

// checkReach asks other nodes whether they reach those that are silent, and of which chains cannot do without
// certainty.
func (l *Leader) checkReach() {
	if len(l.trims) == 0 || l.time < l.probed+l.probeEvery()/2 {
		return
	}
	for _, id := range sorted(l.nodes) {
		n := l.nodes[id]
		if !l.state.Nodes[id].Standing.Fenced() || l.state.Nodes[id].Standing == Removed || len(n.shards) == 0 || l.gone[id] ||
			l.silence(n) <= l.state.Settings.Suspect || n.asked != 0 && l.time-n.asked < l.probeEvery() {
			continue
		}
		n.asked, l.probed = l.time, l.time
		through := slices.DeleteFunc(sorted(l.nodes), func(other NodeID) bool {
			return other == id || l.state.Nodes[other].Standing.Fenced() || l.silence(l.nodes[other]) > l.state.Settings.Suspect
		})
		if len(through) > 0 {
			l.emit(Probe{Node: id, Addr: l.state.Nodes[id].Addr, Through: through})
		}
	}
}

// Reached takes word from another node that it reached the data plane of one that is silent.
func (l *Leader) Reached(now time.Duration, id NodeID) {
	if n := l.nodes[id]; l.begin(now) && n != nil {
		n.reached = max(1, l.time)
	}
}

// doubt says of a suspected node what its chains wait for, for people; empty: nothing.
func (l *Leader) doubt(n *node) string {
	if len(n.shards) == 0 || l.isSure(n.id) {
		return ""
	}
	if l.isReached(n) {
		return fmt.Sprintf("its agent is silent, but other nodes reach its data plane: it stays in the chains of %d shards", len(n.shards))
	}
	return fmt.Sprintf("it is silent, and stays in the chains of %d shards until that is certain (%v; or netcraq fail-node)", len(n.shards), l.state.Settings.Sure)
}

// Trust in nodes that are suspected again and again.

const (
	// calmAfter is how long a node was not suspected, in Options.Retry, until earlier suspicions are forgotten.
	calmAfter = 10
	// mostDistrust bounds how long a node that is back joins no chain, in doublings of Options.Retry.
	mostDistrust = 2
)

// noteSuspicion counts a suspicion of a node, and says how long it is not planned with.
func (l *Leader) noteSuspicion(n *node, why string) {
	if n.fences > 0 && l.time-n.fencedAt > calmAfter*l.options.Retry {
		n.fences = 0
	}
	n.fences++
	n.fencedAt, n.why = l.time, why
	n.convicted = why != silence && why != agentAway
	n.distrust = l.time
	if n.fences > 1 {
		n.distrust += l.options.Retry << min(n.fences-2, mostDistrust)
	}
}

// distrusted says for how long a node is not planned with, and why, for people; empty: it is.
func (l *Leader) distrusted(n *node) string {
	left := n.distrust - l.time
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("it takes no new shards for %v: it was suspected %d times of late, last because %s", left.Round(100*time.Millisecond), n.fences, n.why)
}
