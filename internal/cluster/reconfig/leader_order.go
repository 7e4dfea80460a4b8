package reconfig

import (
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// shard is a leader's volatile state of a shard.
type shard struct {
	// active: the chain of this epoch may be active. While [Shard.FrozenFor] names a node there is no active chain: it is
	// frozen and can be copied.
	active bool
	// clear: outside holds all nodes outside the chain that may serve an older epoch. There are none while it is active
	// (C1).
	clear   bool
	outside []NodeID

	learner, source NodeID        // as counted in node.copyTarget and node.copySource
	copied          Copied        // of this epoch
	moved           time.Duration // when the copy last went on
	complete        bool
	keepers         []NodeID // nodes that have it in node.kept
}

// held is a node's present or wanted configuration of a shard. The epoch determines the members. The zero value: none.
type held struct {
	epoch   uint32
	state   chain.State
	learner bool
	source  string
	keep    bool // the node is out, and keeps its copy
	floor   uint64
	bar     uint64
}

// nothing reports whether the node has no part in the shard. It may keep its copy.
func (h held) nothing() bool { return h.state == chain.None && h.source == "" }

// ordered is an unconfirmed order for one shard.
type ordered struct {
	held
	number uint64 // of the [Order] that had it first; 0: it is not sent
}

// wanted returns the configuration of a shard that a node should have.
func (l *Leader) wanted(id NodeID, number uint16) held {
	s, run := &l.state.Shards[number], &l.shards[number]
	h := held{epoch: s.Epoch}
	switch {
	case id == s.FrozenFor && run.active:
		h.source = l.api(run.source)
	case !slices.Contains(s.Members, id):
		h.keep = l.mayReturn(l.nodes[id], number)
	case !run.active || s.FrozenFor != 0:
		h.state, h.learner = chain.Frozen, id == s.Learner
	default:
		h.state, h.learner = chain.Active, id == s.Learner
		if h.learner {
			h.source = l.api(run.source)
		}
	}
	if h.state != chain.None {
		h.floor, h.bar = s.Floor, s.Bar
	}
	return h
}

func (l *Leader) api(id NodeID) string {
	if n := l.state.Nodes[id]; n != nil {
		return n.API
	}
	return ""
}

// order orders a node to take its wanted configuration of a shard, unless it has that.
func (l *Leader) order(n *node, number uint16) {
	if !n.known {
		return // its inventory comes first
	}
	want := l.wanted(n.id, number)
	has, isHeld := n.has[number]
	switch o := n.orders[number]; {
	case o != nil && (o.held == want || o.nothing() && want.nothing() && o.keep == want.keep):
	case o == nil && (has == want || !isHeld && want.nothing() && (want.keep || !n.kept[number])):
	default:
		l.give(n, number, want)
	}
}

func (l *Leader) give(n *node, number uint16, want held) {
	if len(n.orders) == 0 {
		n.waiting = l.time
	}
	n.orders[number] = &ordered{held: want}
	l.busy[n.id], l.unsent[n.id] = n, n
}

// drive does the next step for a shard: it freezes the members, and activates them once no node can serve an older
// epoch (C1).
func (l *Leader) drive(number uint16) {
	s, run := &l.state.Shards[number], &l.shards[number]
	if s.Epoch == 0 {
		return
	}
	if !run.active && l.mayActivate(number) {
		l.activate(number)
	}
	for _, id := range s.Members {
		l.order(l.nodes[id], number)
	}
	if s.FrozenFor != 0 {
		l.order(l.nodes[s.FrozenFor], number)
	}
	for _, id := range run.outside {
		l.order(l.nodes[id], number)
	}
}

// mayActivate is C1: all members of the chain are frozen in its epoch, and every former member has confirmed that it
// left, or its lease is over.
func (l *Leader) mayActivate(number uint16) bool {
	s, run := &l.state.Shards[number], &l.shards[number]
	for _, id := range s.Members {
		if h := l.nodes[id].has[number]; h.epoch != s.Epoch || h.state == chain.None {
			return false
		}
	}
	if l.options.Without&C1 != 0 {
		return len(s.Members) > 0
	}
	return len(s.Members) > 0 && len(run.outside) == 0 && (run.clear || l.unaccounted == 0)
}

// activate records that the chain of the present epoch may be active.
func (l *Leader) activate(number uint16) {
	run := &l.shards[number]
	for _, id := range run.outside {
		delete(l.nodes[id].left, number)
	}
	run.active, run.clear, run.outside, run.moved = true, true, nil, l.time
	if s := &l.state.Shards[number]; l.options.Without&C3 != 0 && s.Learner != 0 {
		l.complete(number)
	}
}

// leave records that a former member may serve an older epoch of the shard.
func (l *Leader) leave(n *node, number uint16) {
	run := &l.shards[number]
	if !run.active && !n.leaseOver && !slices.Contains(run.outside, n.id) {
		run.outside = append(run.outside, n.id)
		n.left[number] = true
	}
}

// isOut records that a node serves no older epoch of these shards.
func (l *Leader) isOut(n *node, numbers []uint16) {
	for _, number := range numbers {
		if !n.left[number] {
			continue
		}
		delete(n.left, number)
		run := &l.shards[number]
		run.outside = slices.DeleteFunc(run.outside, func(id NodeID) bool { return id == n.id })
		l.drive(number)
	}
}

// confirm records that a node applied all orders up to a number.
func (l *Leader) confirm(n *node, done uint64) {
	n.done = done
	var now, out []uint16
	for _, number := range sorted(n.orders) {
		o := n.orders[number]
		if o.number == 0 || o.number > done {
			continue
		}
		delete(n.orders, number)
		if o.nothing() {
			delete(n.has, number)
			if o.keep {
				l.keep(n, number)
			} else {
				l.unkeep(n, number)
			}
			n.wiping[number] = true
			out = append(out, number)
		} else {
			n.has[number] = o.held
		}
		now = append(now, number)
	}
	if n.waiting = l.time; len(n.orders) == 0 {
		delete(l.busy, n.id)
	}
	l.isOut(n, out)
	for _, number := range now {
		l.drive(number)
	}
	l.dirty = true // its shards may be ready for more
}

// send sends each reachable node its new orders.
func (l *Leader) send() {
	for _, id := range sorted(l.unsent) {
		n := l.unsent[id]
		if l.time-n.lastSeen > 2*l.state.Settings.Suspect || l.gone[id] {
			continue // until a heartbeat arrives
		}
		delete(l.unsent, id)
		n.number++
		for _, o := range n.orders {
			if o.number == 0 {
				o.number = n.number
			}
		}
		l.sendOrder(n)
	}
}

// sendOrder sends a node all its unconfirmed orders.
func (l *Leader) sendOrder(n *node) {
	n.sent = l.time
	order := Order{Term: l.term, Number: n.number, Configs: make(map[uint16]ShardOrder, len(n.orders))}
	for number, o := range n.orders {
		order.Configs[number] = l.shardOrder(n.id, number, o.held)
	}
	l.emit(Send{n.id, order})
}

func (l *Leader) shardOrder(id NodeID, number uint16, h held) ShardOrder {
	o := ShardOrder{
		Config: chain.ShardConfig{Epoch: h.epoch, State: h.state, Learner: h.learner, Floor: h.floor, Bar: h.bar}, Source: h.source,
	}
	o.Keep = h.keep
	if h.learner || h.source != "" {
		o.Born = l.usefulSince(number)
	}
	if h.state == chain.None {
		return o
	}
	o.Fresh = l.state.Shards[number].Fresh
	members := l.state.Shards[number].Members
	o.Config.Self = slices.Index(members, id)
	o.Config.Members = make([]netip.AddrPort, len(members))
	for i, member := range members {
		o.Config.Members[i] = l.state.Nodes[member].Addr
	}
	return o
}
