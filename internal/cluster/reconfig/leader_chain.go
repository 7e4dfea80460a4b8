package reconfig

import (
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
)

// trim removes nodes from chains that they can no longer be in. The last complete copy of a shard stays in its chain,
// because its node may come back.
func (d *draft) trim() {
	for _, number := range sorted(d.l.trims) {
		if !d.touched(number) && d.trimShard(number) {
			delete(d.l.trims, number)
		}
	}
}

// trimShard reports whether the shard is done. It is not if no remaining member has sent a heartbeat lately, because they
// may have failed too, or if a returning node may not arrive.
func (d *draft) trimShard(number uint16) bool {
	l, s := d.l, &d.l.state.Shards[number]
	gone := func(id NodeID) bool { return l.gone[id] }
	dead := func(id NodeID) bool {
		return gone(id) || d.standing(id).Fenced() && (d.whys[id] != "" || !l.returning(id))
	}
	complete := d.complete(number)
	good := slices.DeleteFunc(slices.Clone(complete), func(id NodeID) bool { return d.standing(id).Fenced() || gone(id) })
	if len(good) == 0 {
		dead = gone
	}
	returns := slices.ContainsFunc(s.Members, func(id NodeID) bool { return d.standing(id).Fenced() && !dead(id) })
	if len(s.Members) == 0 || !slices.ContainsFunc(s.Members, dead) && !(s.FrozenFor != 0 && dead(s.FrozenFor)) {
		return len(good) == 0 || !returns
	}
	if len(good) > 0 && !slices.ContainsFunc(good, func(id NodeID) bool { return l.certain(number, id) }) {
		return false
	}
	if d.spares(complete, dead) {
		return false
	}
	complete = slices.DeleteFunc(complete, dead)
	if len(complete) == 0 {
		d.chain(number, nil, 0, 0)
		d.shard(number).Lost = true
		l.emit(Event{fmt.Sprintf("shard %d is lost: the last node with a complete copy has lost its state", number)})
		return true
	}
	if l.options.Without&C2 != 0 {
		slices.Reverse(complete)
	}
	learner, hold := s.Learner, s.FrozenFor
	if hold != 0 && (dead(hold) || slices.Contains(complete, hold) || !slices.Contains(complete, s.Members[0])) {
		hold = 0
	}
	members := complete
	if learner != 0 && (dead(learner) || slices.Contains(complete, learner)) {
		learner = 0
	}
	if learner != 0 {
		at := 0 // where the learner stands: behind those survivors that stood before it
		for _, id := range s.Members[:slices.Index(s.Members, learner)] {
			if slices.Contains(complete, id) {
				at++
			}
		}
		if at == 0 || at == len(complete) { // C3
			learner = 0
		} else {
			members = slices.Insert(slices.Clone(complete), at, learner)
		}
	}
	d.chain(number, members, learner, hold)
	if learner != 0 {
		d.leaving[number] = l.leaving[number]
	}
	return true
}

// certain reports whether a member can be a shard's only one: it is alive, and has confirmed that it has the shard. A
// node that became a member by its copy may have lost that copy since.
func (l *Leader) certain(number uint16, id NodeID) bool {
	n := l.nodes[id]
	has := l.state.Shards[number].Fresh || n.has[number].state != chain.None
	return n.known && has && l.time-n.lastSeen <= l.state.Settings.Suspect/2
}

// complete lists the nodes that have all of a shard, in the order of the chain.
func (d *draft) complete(number uint16) []NodeID {
	s, run := &d.l.state.Shards[number], &d.l.shards[number]
	var complete []NodeID
	for _, id := range s.Members {
		if id != s.Learner || run.complete {
			complete = append(complete, id)
		}
	}
	if s.FrozenFor != 0 && run.complete {
		complete = append(complete, s.FrozenFor)
	}
	return complete
}

// finish makes nodes with complete copies members, removes the members that they replace, and ends copies that were
// given up.
func (d *draft) finish() {
	l, later := d.l, make(map[uint16]bool)
	for _, number := range sorted(l.completed) {
		if d.touched(number) {
			if d.look(number).Epoch == l.state.Shards[number].Epoch {
				later[number] = true // else the change has taken note of it
			}
			continue
		}
		s := &l.state.Shards[number]
		leaver := l.leaving[number]
		if s.FrozenFor == 0 && leaver != 0 && !l.agentsReady(number) {
			later[number] = true // the chain goes on as it is
			continue
		}
		members := d.complete(number)
		if s.FrozenFor != 0 {
			// No other node has the shard before the new member has confirmed its configuration.
			if leaver != 0 {
				l.work.asked = append(l.work.asked, topology.Move{Shard: number, Leave: uint32(leaver), Why: topology.Level})
			}
		} else if slices.Contains(members, leaver) {
			members = slices.DeleteFunc(members, func(id NodeID) bool { return id == leaver })
		}
		if s.Learner != 0 && len(members) == len(s.Members) {
			d.shard(number).Learner = 0
		} else if s.Learner != 0 || s.FrozenFor != 0 {
			d.chain(number, members, 0, 0)
		}
	}
	l.completed = later
	for _, number := range sorted(l.given) {
		if s := &l.state.Shards[number]; !d.touched(number) && (s.Learner != 0 || s.FrozenFor != 0) {
			l.emit(Event{fmt.Sprintf("the copy of shard %d to node %s is given up: %s", number, l.name(max(s.Learner, s.FrozenFor)), l.given[number])})
			d.chain(number, slices.DeleteFunc(slices.Clone(s.Members), func(id NodeID) bool { return id == s.Learner }), 0, 0)
		}
	}
	clear(l.given)
}

// progress handles a copy's progress.
func (l *Leader) progress(n *node, c *Copied) {
	if int(c.Shard) >= len(l.shards) {
		return
	}
	s, run := &l.state.Shards[c.Shard], &l.shards[c.Shard]
	if run.learner != n.id || c.Epoch != s.Epoch || run.complete {
		return
	}
	if c.Objects > run.copied.Objects || c.Complete {
		l.copied += c.Bytes - min(c.Bytes, run.copied.Bytes)
		run.copied, run.moved = *c, l.time
	}
	if c.Complete {
		n.failure = ""
		l.complete(c.Shard)
	}
}

func (l *Leader) complete(number uint16) {
	l.shards[number].complete = true
	l.completed[number], l.dirty = true, true
}

// refusal handles the reason why a node cannot apply its orders: its copies are given up.
func (l *Leader) refusal(n *node, why string) {
	if why != "" && why != n.refused {
		l.emit(Event{fmt.Sprintf("node %s refuses: %s", l.name(n.id), why)})
	}
	n.refused = why
	if why != "" {
		l.giveUpAll(n, why)
	}
}

// giveUpAll ends all copies to a node. It joins no chain for a while.
func (l *Leader) giveUpAll(n *node, why string) {
	any := false
	for number := range n.copyTarget {
		if l.given[number] == "" && !l.shards[number].complete && !l.inChange(number) {
			l.given[number], any = why, true
		}
	}
	if any {
		l.dirty = true
		l.failed(n, why)
	}
}

// failed counts a copy that a node could not complete.
func (l *Leader) failed(n *node, why string) {
	n.failures++
	n.failure = why
	n.rests = l.time + l.backOff(n.failures)
	l.replan(l.backOff(n.failures))
}

// inChange reports whether the change under way contains a shard.
func (l *Leader) inChange(number uint16) bool { return l.storing && l.draft.touched(number) }

// checkCopies gives up copies that make no progress.
func (l *Leader) checkCopies() {
	for _, number := range sorted(l.copying) {
		run := &l.shards[number]
		switch {
		case run.complete || l.given[number] != "" || l.inChange(number):
		case !run.active || l.state.Nodes[run.source].Standing.Fenced() || l.state.Nodes[run.learner].Standing.Fenced():
			run.moved = l.time
		case l.state.Shards[number].FrozenFor == 0 && !l.agentsReady(number):
			run.moved = l.time // an agent that copies may be away: the chain goes on as it is
		case l.time-run.moved > l.options.StallAfter:
			l.given[number], l.dirty = "it does not go on", true
			l.failed(l.nodes[run.learner], "a copy does not go on")
		}
	}
}
