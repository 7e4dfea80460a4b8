package reconfig

import (
	"fmt"
	"slices"
)

// draft is the next change, while it is made.
type draft struct {
	l        *Leader
	number   uint64
	nodes    map[NodeID]*Node
	shards   map[uint16]*Shard
	replicas int
	times    Times
	tags     TagStep
	set      ControllerSet     // of controllers; Since 0: as before
	leaving  map[uint16]NodeID // nodes that leave when the copies that the change begins are complete
	joining  map[NodeID]bool   // nodes that begin to copy with the change
	whys     map[NodeID]string // nodes that it fences
}

// node returns the draft's record of a node. The caller may write to it.
func (d *draft) node(id NodeID) *Node {
	n := d.nodes[id]
	if n == nil {
		n = &Node{}
		if old := d.l.state.Nodes[id]; old != nil {
			*n = *old
		}
		d.nodes[id] = n
	}
	return n
}

// shard returns the draft's record of a shard. The caller may write to it, except to the members' array.
func (d *draft) shard(number uint16) *Shard {
	s := d.shards[number]
	if s == nil {
		s = &Shard{}
		*s = d.l.state.Shards[number]
		d.shards[number] = s
	}
	return s
}

// chain gives a shard another chain.
func (d *draft) chain(number uint16, members []NodeID, learner, hold NodeID) {
	s := d.shard(number)
	s.Epoch = d.l.state.Shards[number].Epoch + 1
	s.Members, s.Learner, s.FrozenFor = members, learner, hold
	s.Fresh = s.Fresh && learner == 0 && hold == 0
	if s.Born == 0 { // a release that knew no lineages made the chain
		s.Born = s.Epoch
	}
}

func (d *draft) look(number uint16) *Shard {
	if s := d.shards[number]; s != nil {
		return s
	}
	return &d.l.state.Shards[number]
}

// touched reports whether the change has something for a shard already: it gets one step in a change.
func (d *draft) touched(number uint16) bool { return d.shards[number] != nil }

func (d *draft) standing(id NodeID) Standing {
	if n := d.nodes[id]; n != nil {
		return n.Standing
	}
	return d.l.state.Nodes[id].Standing
}

// propose makes the next change from everything that waits for one, if anything does.
func (l *Leader) propose() {
	d := &draft{
		l: l, number: l.state.Change + 1, nodes: make(map[NodeID]*Node), shards: make(map[uint16]*Shard),
		leaving: make(map[uint16]NodeID), joining: make(map[NodeID]bool), whys: make(map[NodeID]string),
	}
	d.fence()
	d.readmit()
	d.comeback()
	d.register()
	d.operate()
	d.retag()
	d.trim()
	d.finish()
	d.begin()
	d.form()
	d.raise()
	if len(d.nodes)+len(d.shards) == 0 && d.replicas == 0 && d.times == (Times{}) && d.tags == (TagStep{}) && d.set.Since == 0 {
		return
	}
	c := Change{
		Number: d.number, Shards: make(map[uint16]Shard, len(d.shards)), Replicas: d.replicas, Times: d.times, Tags: d.tags,
		Controllers: d.set,
	}
	for _, id := range sorted(d.nodes) {
		c.Nodes = append(c.Nodes, *d.nodes[id])
	}
	for number, s := range d.shards {
		c.Shards[number] = *s
	}
	if err := l.state.Check(c); err != nil {
		l.ended = true
		l.emit(Event{fmt.Sprintf("gives up leading: its own change %d is wrong: %v", c.Number, err)})
		return
	}
	l.storing, l.draft, l.change = true, d, c
	l.emit(Store{c})
}

// fence fences the nodes that are suspected, and looks at their shards.
func (d *draft) fence() {
	l := d.l
	for _, id := range sorted(l.suspects) {
		if d.standing(id).Fenced() {
			continue // suspected again while the change that fences it was under way
		}
		d.whys[id] = l.suspects[id]
		n := d.node(id)
		if n.FencedBy = d.number; n.Standing == Draining {
			n.Standing = FencedDraining
		} else {
			n.Standing = Fenced
		}
	}
	clear(l.suspects)
	for _, ids := range [][]NodeID{sorted(d.whys), sorted(l.gone)} {
		for _, id := range ids {
			for number := range l.nodes[id].shards {
				l.trims[number] = true
			}
		}
	}
}

// readmit takes back fenced nodes that answer and have left all chains that they were removed from. A node without its
// state is recorded first, once nothing from before can interfere, and stays fenced: its registration may be a late one
// of an earlier process, and the node that runs may be another one, with state.
func (d *draft) readmit() {
	l := d.l
	for _, id := range sorted(l.gone) {
		n := l.nodes[id]
		if d.whys[id] != "" || !n.leaseOver || len(n.shards) > 0 || n.registration == nil {
			continue
		}
		up := d.node(id)
		h := n.registration
		up.Incarnation, up.Addr, up.API, up.Labels, up.Capacity = h.Incarnation, h.Addr, h.API, h.Labels, h.Capacity
	}
	for _, id := range sorted(l.back) {
		n, r := l.nodes[id], l.state.Nodes[id]
		if r.Standing.Fenced() && r.Standing != Removed && l.returning(id) && n.known && len(n.orders) == 0 && l.inPhase(n) {
			d.node(id).Standing = readmittedAs(r.Standing)
			for number := range n.shards {
				l.trims[number] = true
			}
		}
	}
	clear(l.back)
}

func readmittedAs(s Standing) Standing {
	if s == FencedDraining {
		return Draining
	}
	return Up
}

// register gives new nodes their IDs.
func (d *draft) register() {
	l := d.l
	next := NodeID(1)
	for id := range l.state.Nodes {
		next = max(next, id+1)
	}
	for _, name := range sorted(l.registrations) {
		h := l.registrations[name]
		id, known := l.names[name]
		if !known {
			id = next
			next++
		}
		n := d.node(id)
		if !known {
			*n = Node{ID: id, Name: name, Addr: h.Addr, Incarnation: h.Incarnation, Standing: Up}
		}
		n.API, n.Labels, n.Capacity = h.API, h.Labels, max(1, h.Capacity)
	}
	clear(l.registrations)
}

// stored records that the change under way is durable, or was refused.
func (l *Leader) stored(number uint64, ok bool) {
	if !l.storing || number != l.change.Number {
		return
	}
	l.storing, l.dirty = false, true
	if !ok {
		l.ended = true
		l.emit(Event{"another controller leads"})
		return
	}
	d, c := l.draft, l.change
	before := make(map[uint16]Shard, len(c.Shards))
	for shard := range c.Shards {
		before[shard] = l.state.Shards[shard]
	}
	was := make(map[NodeID]*Node, len(c.Nodes))
	for i := range c.Nodes {
		was[c.Nodes[i].ID] = l.state.Nodes[c.Nodes[i].ID]
	}
	phase, controllers := l.state.Settings.Tags.Phase, l.state.Controllers
	l.state.Apply(c)
	if c.Replicas != 0 {
		l.replan(0)
	}
	if c.Tags != (TagStep{}) {
		l.noteTags(phase)
	}
	if c.Controllers.Since != 0 {
		l.noteControllers(&controllers)
	}
	for _, shard := range sorted(c.Shards) {
		s := before[shard]
		l.update(shard, &s, d.leaving[shard])
	}
	l.standings(d, was)
	for _, shard := range sorted(c.Shards) {
		l.drive(shard)
	}
}

// standings updates the leader's nodes after a change.
func (l *Leader) standings(d *draft, was map[NodeID]*Node) {
	var fenced []NodeID
	for _, id := range sorted(d.nodes) {
		n, before, now := l.nodes[id], was[id], l.state.Nodes[id]
		switch {
		case before == nil:
			n = l.newNode(id)
			n.counted = true
			l.watch(n)
			l.emit(Event{fmt.Sprintf("node %s joins", now.Name)})
			l.replan(0)
		case d.whys[id] != "":
			fenced = append(fenced, id)
			l.fenced(n, d.whys[id])
		case before.Incarnation != now.Incarnation:
			n.registration, n.done = nil, 0
			n.former[before.Incarnation] = true
			delete(l.gone, id)
			delete(l.claims, id)
			n.failures, n.wipes = 0, false
			l.hail(n)
		case before.Standing.Fenced() && !now.Standing.Fenced():
			l.readmitted(n)
		case now.Standing == Removed:
			l.unwatch(n)
			delete(l.busy, id)
			delete(l.unsent, id)
			l.replan(0)
		default:
			l.replan(0)
		}
	}
	l.awaitLeases(d.number, fenced)
}

// update updates a shard from its state before to the durable one.
func (l *Leader) update(number uint16, before *Shard, leave NodeID) {
	s, run := &l.state.Shards[number], &l.shards[number]
	l.index(number, before, s)
	for _, id := range slices.Clone(run.keepers) {
		if id != s.Learner && slices.Contains(s.Members, id) {
			l.unkeep(l.nodes[id], number) // it has all of it
		}
	}
	defer l.orderKeepers(number)
	if before.Epoch == s.Epoch {
		return
	}
	delete(l.leaving, number)
	delete(l.completed, number) // a copy for the epoch before: it completed while the change was under way
	if leave != 0 {
		l.leaving[number] = leave
	}
	out := run.outside
	run.active, run.outside, run.complete, run.copied, run.moved = false, nil, false, Copied{}, l.time
	for _, id := range out {
		delete(l.nodes[id].left, number)
		if !slices.Contains(s.Members, id) {
			l.leave(l.nodes[id], number)
		}
	}
	for _, id := range append(slices.Clone(before.Members), before.FrozenFor) {
		if id == 0 || id == s.FrozenFor || slices.Contains(s.Members, id) {
			continue
		}
		n := l.nodes[id]
		// A node that is not complete answers no reads.
		if id != before.Learner && id != before.FrozenFor && n.mayHave(number) {
			l.leave(n, number)
		}
		l.order(n, number)
	}
}

// index keeps the sets of shards by node, and the copies under way.
func (l *Leader) index(number uint16, before, s *Shard) {
	run := &l.shards[number]
	for _, id := range append(slices.Clone(before.Members), before.FrozenFor) {
		if id != 0 {
			delete(l.nodes[id].shards, number)
		}
	}
	for _, id := range append(slices.Clone(s.Members), s.FrozenFor) {
		if id != 0 {
			l.nodes[id].shards[number] = true
		}
	}
	if run.learner != 0 {
		delete(l.nodes[run.learner].copyTarget, number)
		delete(l.nodes[run.source].copySource, number)
	}
	delete(l.copying, number)
	if run.learner, run.source = max(s.Learner, s.FrozenFor), 0; run.learner == 0 {
		return
	}
	run.source = sourceOf(s.Members, slices.Index(s.Members, run.learner))
	l.nodes[run.learner].copyTarget[number] = run.source
	l.nodes[run.source].copySource[number] = run.learner
	l.copying[number] = true
	run.moved = l.time
}

// sourceOf returns the successor of the member at a place, or of the node that the chain is frozen for (-1): it copies
// from there. The successor holds every write that a member after it holds, committed or not, and so must the learner
// (I4).
func sourceOf(members []NodeID, place int) NodeID { return members[min(place+1, len(members)-1)] }
