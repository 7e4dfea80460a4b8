package reconfig

import (
	"fmt"
	"slices"
	"time"
)

// heartbeatTimeout is the reason of a suspicion that ends if a heartbeat arrives in time.
const heartbeatTimeout = "it is silent"

// withoutState is the reason to suspect a node after a registration with another incarnation.
const withoutState = "it is back without its state"

// watch starts a node's heartbeat timeout, which is twice as long at first.
func (l *Leader) watch(n *node) {
	n.lastSeen, n.listened = l.time, l.listened+l.state.Settings.Suspect
	n.welcomed = l.listened
	n.timeout = l.byHeartbeat.PushBack(n)
}

func (l *Leader) unwatch(n *node) {
	if n.timeout != nil {
		l.byHeartbeat.Remove(n.timeout)
		n.timeout = nil
	}
}

// checkHeartbeats suspects nodes whose heartbeat timed out. Time in which no node sent a heartbeat does not count: the
// leader is cut off then, or no node is left.
func (l *Leader) checkHeartbeats() {
	l.checkClaims()
	for e := l.byHeartbeat.Front(); e != nil; e = e.Next() {
		n := e.Value.(*node)
		if l.sinceHeartbeat(n) <= l.state.Settings.Suspect {
			return
		}
		if l.timedOut(n) {
			l.suspect(n, heartbeatTimeout)
		}
	}
}

// checkClaims accepts registrations of nodes without their state once the heartbeat of the node before timed out. It
// drops a registration if that takes too long. A heartbeat after the registration refutes it: the registration was late,
// or its node repeats it.
func (l *Leader) checkClaims() {
	for _, id := range sorted(l.claims) {
		n := l.claims[id]
		if l.time-n.lastSeen > l.claimAfter(n) && n.claimed >= n.lastSeen {
			delete(l.claims, id)
			l.gone[id], l.dirty = true, true
			l.suspect(n, withoutState)
		} else if l.time-n.claimed > 10*l.longestPatience() {
			delete(l.claims, id)
			n.registration = nil
		}
	}
}

// claimAfter returns how long a node must be silent before it counts as one without its state. That is certain in the
// sense of C6, so it takes no less than a suspicion. A leader that never heard the node does not know its pauses: and
// when its term begins, it is told of all connections, also of those that ended with the node's earlier process.
func (l *Leader) claimAfter(n *node) time.Duration {
	if n.agentSeen == 0 && n.answered == 0 {
		return l.longestPatience()
	}
	return l.patience(n)
}

// longestPatience returns the longest heartbeat timeout.
func (l *Leader) longestPatience() time.Duration {
	return max(l.state.Settings.Suspect, l.state.Settings.SuspectMax)
}

// checkOrders suspects nodes that send heartbeats but do not apply their orders. If all orders of a node are to join
// chains, it withdraws those instead.
func (l *Leader) checkOrders() {
	for _, id := range sorted(l.busy) {
		n := l.busy[id]
		if l.time-n.waiting <= l.applyWithin(n) {
			continue
		}
		joins := len(n.orders) > 0
		for number := range n.orders {
			_, copied := n.copyTarget[number]
			joins = joins && copied
		}
		if joins {
			l.giveUpAll(n, "it does not join")
			n.waiting = l.time
		} else if l.time-n.lastSeen <= l.state.Settings.Suspect {
			if l.isAway(n) {
				l.suspect(n, agentAway)
			} else {
				l.convict(n, "it does not apply "+n.refused)
			}
		}
	}
}

// applyWithin returns the time that a node has for its orders. One that refuses them has less: waiting changes nothing. So
// has one whose agent has departed while writes wait for it: to go on without the node takes less time than most agents
// need to come back.
func (l *Leader) applyWithin(n *node) time.Duration {
	switch {
	case n.refused != "" || l.holdsUp(n):
		return l.options.ApplyWithin / 8
	case !n.known && l.allActive(): // no write waits for its inventory: its agent may have been away when the term began
		return l.returnsWithin()
	}
	return l.options.ApplyWithin
}

// allActive reports whether the writes of no shard wait for a leader.
func (l *Leader) allActive() bool {
	for number := range l.shards {
		if !l.shards[number].active && len(l.state.Shards[number].Members) > 0 {
			return false
		}
	}
	return true
}

func (l *Leader) suspect(n *node, why string) {
	if l.suspects[n.id] == "" && !l.state.Nodes[n.id].Standing.Fenced() {
		l.suspects[n.id], l.dirty = why, true
	}
}

// convict suspects a node whose heartbeats arrive. An earlier leader may have fenced it: convictions are not durable, and
// without one C6 keeps the node in its chain for as long as it sends heartbeats.
func (l *Leader) convict(n *node, why string) {
	if l.state.Nodes[n.id].Standing.Fenced() && !n.convicted {
		n.convicted, l.dirty = true, true
		return
	}
	l.suspect(n, why)
}

// returning reports whether a fenced node is about to return with its state.
func (l *Leader) returning(id NodeID) bool {
	n := l.nodes[id]
	applies := n.known && len(n.orders) == 0 || l.time-n.waiting <= l.options.ApplyWithin
	return !l.gone[id] && l.time-n.lastSeen <= l.patience(n) && applies
}

// leaseWait is a wait until the leases of nodes that a change has fenced are over.
type leaseWait struct {
	change uint64
	nodes  []NodeID                 // none: the wait is for leases of an earlier set of controllers
	over   map[string]time.Duration // by controller that knows the change: when its grants are over
}

func newLeaseWait(change uint64, nodes []NodeID) *leaseWait {
	return &leaseWait{change: change, nodes: nodes, over: make(map[string]time.Duration)}
}

// awaitLeases begins to wait until the leases of nodes are over.
func (l *Leader) awaitLeases(change uint64, nodes []NodeID) {
	if len(nodes) == 0 {
		return
	}
	l.leaseWaits = append(l.leaseWaits, newLeaseWait(change, nodes))
	l.emit(LeaseWait{change, slices.Clone(nodes)})
}

// answered handles a controller's answer. Only the first one of each controller counts.
func (l *Leader) answered(controller string, change uint64, left time.Duration) {
	for _, f := range l.leaseWaits {
		if _, known := f.over[controller]; f.change == change && !known {
			if f.nodes == nil { // it gave the last grant of an earlier set before it answered
				left = lasts(l.state.Settings.longest())
			}
			f.over[controller] = l.time + max(0, left)
		}
	}
	l.checkLeaseWaits()
}

// checkLeaseWaits ends the waits that are over: a majority of the controllers grants nothing any more, and without it there is no
// lease.
func (l *Leader) checkLeaseWaits() {
	l.leaseWaits = slices.DeleteFunc(l.leaseWaits, func(f *leaseWait) bool {
		if over, known := l.leasesOver(f); !known || over > l.time {
			return false
		}
		l.settled = l.settled || f.nodes == nil
		for _, id := range f.nodes {
			l.leaseEnded(l.nodes[id], f.change)
		}
		return true
	})
}

// leaseEnded notes that a node that was fenced in a change, and is still, holds no lease.
func (l *Leader) leaseEnded(n *node, change uint64) {
	if r := l.state.Nodes[n.id]; !r.Standing.Fenced() || r.FencedBy > change {
		return
	}
	n.leaseOver, l.dirty = true, true
	l.isOut(n, sorted(n.left))
	l.account(n)
}

// fenced updates a node that a change has fenced.
func (l *Leader) fenced(n *node, why string) {
	n.leaseOver = false
	l.noteSuspicion(n, why)
	l.unwatch(n)
	l.emit(Event{fmt.Sprintf("node %s is suspected: %s", l.name(n.id), why)})
	l.replan(l.options.RepairAfter)
}

// readmitted updates a node that is in good standing again, and restarts its heartbeat timeout.
func (l *Leader) readmitted(n *node) {
	n.leaseOver, n.convicted = false, false
	l.watch(n)
	l.emit(Event{fmt.Sprintf("node %s is back", l.name(n.id))})
	l.replan(max(0, n.distrust-l.time))
}

// backOff returns the pause after a number of failures; 0 after none.
func (l *Leader) backOff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return l.options.Retry << min(failures-1, 8)
}
