package reconfig

import (
	"testing"
	"time"
)

// TestCheckInvariants breaks one invariant at a time of a leader that repairs a chain.
func TestCheckInvariants(t *testing.T) {
	for what, break1 := range map[string]func(l *Leader, n *node){
		"": func(*Leader, *node) {},
		"a change of the past": func(l *Leader, _ *node) {
			l.storing, l.draft, l.change.Number = true, &draft{}, l.state.Change
		},
		"a change without a draft": func(l *Leader, _ *node) {
			l.storing, l.draft, l.change.Number = true, nil, l.state.Change+1
		},
		"a node of the future": func(l *Leader, _ *node) { l.lastSeen = l.time + 1 },
		"a wait for leases to come": func(l *Leader, _ *node) {
			l.leaseWaits = []*leaseWait{newLeaseWait(l.state.Change+1, nil)}
		},
		"a node that is not stored":    func(l *Leader, n *node) { delete(l.state.Nodes, n.id) },
		"a node of another name":       func(l *Leader, n *node) { l.state.Nodes[n.id].Name = "other" },
		"a node that counts twice":     func(l *Leader, _ *node) { l.unaccounted++ },
		"a timeout without a node":     func(l *Leader, _ *node) { l.byHeartbeat.PushBack(&node{}) },
		"no timeout in good standing":  func(l *Leader, n *node) { l.unwatch(n) },
		"no lease in good standing":    func(_ *Leader, n *node) { n.leaseOver = true },
		"has before the inventory":     func(_ *Leader, n *node) { n.known = false },
		"orders that nobody waits for": func(l *Leader, n *node) { n.orders[0] = &ordered{}; delete(l.busy, n.id) },
		"an order of the future": func(l *Leader, n *node) {
			n.orders[0] = &ordered{number: n.number + 1}
			l.busy[n.id] = n
		},
		"an order that is never sent": func(l *Leader, n *node) {
			n.orders[0] = &ordered{}
			l.busy[n.id] = n
			delete(l.unsent, n.id)
		},
		"a heartbeat of the future":      func(l *Leader, n *node) { n.lastSeen = l.time + 1 },
		"a claim without a registration": func(l *Leader, n *node) { l.claims[n.id], n.registration = n, nil },
		"a keeper that is not looked at": func(l *Leader, n *node) { n.kept[0] = true; delete(l.keepers, n.id) },
		"a chain with a node twice": func(l *Leader, _ *node) {
			s := &l.state.Shards[0]
			s.Members = append(s.Members[:1:1], s.Members[0])
		},
		"a member without the shard": func(l *Leader, _ *node) {
			delete(l.nodes[l.state.Shards[0].Members[0]].shards, 0)
		},
		"a shard too many":           func(l *Leader, n *node) { n.shards[99] = true },
		"a copy to another":          func(l *Leader, _ *node) { l.shards[0].learner++ },
		"a copy that is not counted": func(l *Leader, _ *node) { delete(l.copying, 0) },
		"a copy too many":            func(_ *Leader, n *node) { n.copyTarget[99] = n.id },
		"active with others outside": func(l *Leader, n *node) {
			l.shards[0].active, l.shards[0].outside = true, []NodeID{n.id}
			n.left[0] = true
		},
		"outside, and it has not left": func(l *Leader, n *node) {
			l.shards[0].active, l.shards[0].outside = false, []NodeID{n.id}
		},
		"it has left, and is not outside": func(_ *Leader, n *node) { n.left[99] = true },
		"a keeper that keeps nothing":     func(l *Leader, n *node) { l.shards[0].keepers = []NodeID{n.id} },
	} {
		w := formed(t, 1, 4, 1, 3)
		w.chain(0)[1].kill()
		if !w.until(time.Minute, w.copying) {
			t.Fatal("no copy begins")
		}
		break1(w.leader, w.leader.nodes[w.leader.state.Shards[0].Members[0]])
		if err := w.leader.CheckInvariants(); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
