package reconfig

import (
	"fmt"
	"slices"
	"time"
)

// silence is the reason for a suspicion that ends if the node is heard in time.
const silence = "it is silent"

// watch makes a node one that is suspected when it is silent. It has twice the usual time at first.
func (l *Leader) watch(n *node) {
	n.lastSeen, n.listened = l.time, l.listened+l.state.Settings.Suspect
	n.welcomed = l.listened
	n.silence = l.silent.PushBack(n)
}

func (l *Leader) unwatch(n *node) {
	if n.silence != nil {
		l.silent.Remove(n.silence)
		n.silence = nil
	}
}

// checkSilence suspects nodes that were not heard for too long. A leader that hears nobody is itself cut off, or there is nobody to go on with:
// that time does not count.
func (l *Leader) checkSilence() {
	l.checkClaims()
	for e := l.silent.Front(); e != nil; e = e.Next() {
		n := e.Value.(*node)
		if l.silence(n) <= l.state.Settings.Suspect {
			return
		}
		if l.isSilent(n) {
			l.suspect(n, silence)
		}
	}
}

// checkClaims believes who says to be a node without its state, once the one before is silent. If that takes long, it is
// believed no more.
func (l *Leader) checkClaims() {
	for _, id := range sorted(l.claims) {
		n := l.claims[id]
		if l.time-n.lastSeen > l.state.Settings.Suspect {
			delete(l.claims, id)
			l.gone[id], l.dirty = true, true
			l.suspect(n, "it is back without its state")
		} else if l.time-n.claimed > 10*l.state.Settings.Suspect {
			delete(l.claims, id)
			n.registration = nil
		}
	}
}

// checkOrders suspects nodes that send heartbeats but do not apply their orders. If all orders of a node are to join
// chains, it withdraws those instead.
func (l *Leader) checkOrders() {
	for _, id := range sorted(l.busy) {
		n := l.busy[id]
		limit := l.options.ApplyWithin
		if n.refused != "" {
			limit /= 8 // waiting changes nothing
		}
		if l.time-n.waiting <= limit {
			continue
		}
		joins := len(n.orders) > 0
		for number := range n.orders {
			joins = joins && n.copyTarget[number]
		}
		if joins {
			l.giveUpAll(n, "it does not join")
			n.waiting = l.time
		} else if l.time-n.lastSeen <= l.state.Settings.Suspect {
			if l.away(n) > l.options.ApplyWithin/2 {
				l.suspect(n, agentAway)
			} else {
				l.suspect(n, "it does not apply "+n.refused)
			}
		}
	}
}

func (l *Leader) suspect(n *node, why string) {
	if l.suspects[n.id] == "" && !l.state.Nodes[n.id].Standing.Fenced() {
		l.suspects[n.id], l.dirty = why, true
	}
}

// returning reports whether a fenced node is on its way back with what it has.
func (l *Leader) returning(id NodeID) bool {
	n := l.nodes[id]
	applies := n.known && len(n.orders) == 0 || l.time-n.waiting <= l.options.ApplyWithin
	return !l.gone[id] && l.time-n.lastSeen <= l.patience(n) && applies
}

// leaseWait is a wait until the leases of nodes that a change has fenced are over.
type leaseWait struct {
	change uint64
	nodes  []NodeID
	over   map[string]time.Duration // by controller that knows the change: when its grants are over
}

// awaitLeases begins to wait until the leases of nodes are over.
func (l *Leader) awaitLeases(change uint64, nodes []NodeID) {
	if len(nodes) == 0 {
		return
	}
	l.leaseWaits = append(l.leaseWaits, &leaseWait{change: change, nodes: nodes, over: make(map[string]time.Duration)})
	l.emit(LeaseWait{change, slices.Clone(nodes)})
}

// answered takes a controller's answer. A later one of the same controller cannot say more.
func (l *Leader) answered(controller string, change uint64, left time.Duration) {
	for _, f := range l.leaseWaits {
		if _, known := f.over[controller]; f.change == change && !known {
			f.over[controller] = l.time + max(0, left)
		}
	}
	l.checkLeaseWaits()
}

// checkLeaseWaits ends the waits that are over: a majority of the controllers grants nothing any more, and without it there is no
// lease.
func (l *Leader) checkLeaseWaits() {
	l.leaseWaits = slices.DeleteFunc(l.leaseWaits, func(f *leaseWait) bool {
		over := make([]time.Duration, 0, len(f.over))
		for _, at := range f.over {
			over = append(over, at)
		}
		slices.Sort(over)
		if len(over) < l.majority || over[l.majority-1] > l.time {
			return false
		}
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

// readmitted updates a node that is in good standing again.
func (l *Leader) readmitted(n *node) {
	n.leaseOver, n.convicted = false, false
	l.watch(n)
	l.emit(Event{fmt.Sprintf("node %s is back", l.name(n.id))})
	l.replan(max(0, n.distrust-l.time))
}

// backOff is how long not to try again after so many failures: nothing after none.
func (l *Leader) backOff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return l.options.Retry << min(failures-1, 8)
}
