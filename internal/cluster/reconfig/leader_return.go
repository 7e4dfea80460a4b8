package reconfig

import (
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// hopelessReturns is the number of failed copies after which a node starts again without its kept state.
const hopelessReturns = 3

// keep records that a node keeps data of a shard without being a full member of its chain.
func (l *Leader) keep(n *node, number uint16) {
	if n.kept[number] {
		return
	}
	n.kept[number], l.keepers[n.id] = true, true
	l.shards[number].keepers = append(l.shards[number].keepers, n.id)
}

func (l *Leader) unkeep(n *node, number uint16) {
	if !n.kept[number] {
		return
	}
	run := &l.shards[number]
	run.keepers = slices.DeleteFunc(run.keepers, func(id NodeID) bool { return id == n.id })
	if delete(n.kept, number); len(n.kept) == 0 {
		delete(l.keepers, n.id)
	}
}

// orderKeepers orders nodes that keep a shard outside its chain to go on keeping it, or to delete it.
func (l *Leader) orderKeepers(number uint16) {
	s := &l.state.Shards[number]
	for _, id := range slices.Clone(l.shards[number].keepers) {
		if id != s.FrozenFor && !slices.Contains(s.Members, id) {
			l.order(l.nodes[id], number)
		}
	}
}

// mayReturn reports whether a node outside a shard's chain should keep its copy: it was a full member, and the shard is
// under-replicated without it.
func (l *Leader) mayReturn(n *node, number uint16) bool {
	s, r := &l.state.Shards[number], l.state.Nodes[n.id]
	has, isHeld := n.has[number]
	switch {
	case !n.kept[number] && (!isHeld || has.nothing() || has.learner):
		return false
	case r.Standing != Up && r.Standing != Fenced, l.gone[n.id], n.failures >= hopelessReturns:
		return false
	}
	return s.Born != 0 && len(s.Members) > 0 && fullMembers(s) < l.members(s)
}

// fullMembers returns the number of members that hold all of a shard.
func fullMembers(s *Shard) int {
	if s.Learner != 0 {
		return len(s.Members) - 1
	}
	return len(s.Members)
}

// comeback puts nodes back into chains whose data they kept. That is cheap, so all begin at once, and it takes precedence
// over copies to other nodes, also over those under way.
func (d *draft) comeback() {
	l := d.l
	for _, id := range sorted(l.keepers) {
		n := l.nodes[id]
		absent := l.time-n.lastSeen > l.patience(n) || l.time < max(n.rests, n.distrust)
		if !n.known || n.wipes || l.gone[id] || d.standing(id) != Up || absent {
			continue
		}
		for _, number := range sorted(n.kept) {
			d.putBack(n, number)
		}
	}
}

// putBack puts a node back into one chain, if no change of it is under way except a copy to a new node.
func (d *draft) putBack(n *node, number uint16) {
	l := d.l
	s, run := &l.state.Shards[number], &l.shards[number]
	if d.touched(number) || n.orders[number] != nil || n.wiping[number] || slices.Contains(s.Members, n.id) || !l.mayReturn(n, number) {
		return
	}
	members := slices.DeleteFunc(slices.Clone(s.Members), func(id NodeID) bool { return id == s.Learner })
	if run.learner != 0 && (run.complete || l.nodes[run.learner].kept[number]) || !run.active || !l.confirmed(number, members) {
		return
	}
	if !l.agentsReady(number, n.id) {
		return // the chain goes on as it is
	}
	switch len(members) {
	case 1:
		d.chain(number, members, 0, n.id)
	case wire.MaxChain:
		return
	default:
		at := 1 + int(number)%(len(members)-1)
		d.chain(number, slices.Insert(members, at, n.id), n.id, 0)
	}
}

// confirmed reports whether some members of a shard's chain are in good standing, and have confirmed the present epoch.
func (l *Leader) confirmed(number uint16, members []NodeID) bool {
	s := &l.state.Shards[number]
	return !slices.ContainsFunc(members, func(id NodeID) bool {
		has := l.nodes[id].has[number]
		return has != l.wanted(id, number) || has.epoch != s.Epoch || l.state.Nodes[id].Standing.Fenced()
	})
}
