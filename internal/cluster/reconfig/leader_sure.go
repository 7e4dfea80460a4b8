package reconfig

import (
	"fmt"
	"slices"
	"time"
)

// C6: a heartbeat timeout alone leaves a chain two complete members. A suspected node gets no grants, but to remove it
// from a chain that would have fewer than two members without it, the leader must be certain that it failed.

// isSure reports whether a suspected node may be taken out of a chain of two: it did not apply its orders, an operator
// declared it failed, or it sent no heartbeat for Settings.Sure and no other node reached its data plane in that time. A
// node that is reachable but does not apply orders that the cluster waits for also counts. The registration of a node
// without its state is not enough: it may be late, and the node before be alive. After one, any silence for
// Settings.Sure is: the node may be the only one, and without nodes the leader does not count time as listened.
func (l *Leader) isSure(id NodeID) bool {
	n := l.nodes[id]
	if n.convicted || l.gone[id] && l.time-n.lastSeen > l.state.Settings.Sure {
		return true
	}
	if waits := len(n.orders) > 0 || !n.known; waits && l.away(n) > l.returnsWithin() {
		return true
	}
	return l.sinceHeartbeat(n) > l.state.Settings.Sure && !l.isReached(n)
}

// spares reports whether C6 forbids to remove the failed nodes from a shard's chain now.
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

// probeEvery returns the interval at which other nodes probe a node whose heartbeat timed out.
func (l *Leader) probeEvery() time.Duration { return l.state.Settings.Sure / 8 }

// isReached reports whether another node recently reached the data plane of a node whose heartbeat timed out.
func (l *Leader) isReached(n *node) bool {
	return n.reached != 0 && l.time-n.reached <= l.state.Settings.Sure
}

// checkReach asks other nodes to probe the nodes whose heartbeat timed out and that C6 keeps in chains.
func (l *Leader) checkReach() {
	if len(l.trims) == 0 || l.time < l.probed+l.probeEvery()/2 {
		return
	}
	for _, id := range sorted(l.nodes) {
		n := l.nodes[id]
		if !l.state.Nodes[id].Standing.Fenced() || l.state.Nodes[id].Standing == Removed || len(n.shards) == 0 || l.gone[id] ||
			l.sinceHeartbeat(n) <= l.state.Settings.Suspect || n.asked != 0 && l.time-n.asked < l.probeEvery() {
			continue
		}
		n.asked, l.probed = l.time, l.time
		through := slices.DeleteFunc(sorted(l.nodes), func(other NodeID) bool {
			return other == id || l.state.Nodes[other].Standing.Fenced() || l.sinceHeartbeat(l.nodes[other]) > l.state.Settings.Suspect
		})
		if len(through) > 0 {
			l.emit(Probe{Node: id, Addr: l.state.Nodes[id].Addr, Through: through})
		}
	}
}

// Reached handles the report of a node that it reached the data plane of a suspected one.
func (l *Leader) Reached(now time.Duration, id NodeID) {
	if n := l.nodes[id]; l.begin(now) && n != nil {
		n.reached = max(1, l.time)
	}
}

// doubt returns the reason, for operators, that keeps a suspected node in its chains. Empty: there is none.
func (l *Leader) doubt(n *node) string {
	if len(n.shards) == 0 || l.isSure(n.id) {
		return ""
	}
	if l.isReached(n) {
		return fmt.Sprintf("its agent is silent, but other nodes reach its data plane: it stays in the chains of %d shards", len(n.shards))
	}
	return fmt.Sprintf("it is silent, and stays in the chains of %d shards until that is certain (%v; or netcraq fail-node)",
		len(n.shards), l.state.Settings.Sure)
}

// Limits of the distrust of nodes that are suspected repeatedly.

const (
	// calmAfter is the time without suspicion, in units of Options.Retry, after which earlier suspicions no longer count.
	calmAfter = 10
	// maxDistrust bounds the time in which a returned node joins no chain, in doublings of Options.Retry.
	maxDistrust = 2
)

// noteSuspicion counts a suspicion of a node, and sets the time in which placement does not use it.
func (l *Leader) noteSuspicion(n *node, why string) {
	if n.fences > 0 && l.time-n.fencedAt > calmAfter*l.options.Retry {
		n.fences = 0
	}
	n.fences++
	n.fencedAt, n.why = l.time, why
	n.convicted = why != heartbeatTimeout && why != agentAway && why != withoutState
	n.distrust = l.time
	if n.fences > 1 {
		n.distrust += l.options.Retry << min(n.fences-2, maxDistrust)
	}
}

// distrusted returns a text for operators about how long placement does not use a node, and why; empty: it uses it.
func (l *Leader) distrusted(n *node) string {
	left := n.distrust - l.time
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("it takes no new shards for %v: it was suspected %d times of late, last because %s",
		left.Round(100*time.Millisecond), n.fences, n.why)
}
