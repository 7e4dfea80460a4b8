package reconfig

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// node is a leader's volatile state of a node.
type node struct {
	id       NodeID
	lastSeen time.Duration // in Leader.time
	// listened: the same in Leader.listened, for suspicions.
	listened  time.Duration
	timeout   *list.Element // in Leader.byHeartbeat; nil: it has no heartbeat timeout
	pauses    pauses        // between its heartbeats
	direct    bool          // its data plane answers heartbeats
	answered  time.Duration // when it last did, in Leader.listened
	round     uint64        // the last round of heartbeats before that
	agentSeen time.Duration // time of its agent's last heartbeat, in Leader.listened
	departed  bool          // the connection of its agent ended after that
	departing bool          // its agent announced that it ends
	announced time.Duration // when it did so first, in Leader.listened
	welcomed  time.Duration // when this leader began to wait for it
	asked     time.Duration // when other nodes were last asked whether they reach it
	reached   time.Duration // when one of them said so; 0: never
	known     bool          // its inventory of this term is here: has is complete
	counted   bool          // in Leader.unaccounted no more
	leaseOver bool          // fenced, and no lease of it lasts: then left is empty

	// Nothing before its inventory.
	has    map[uint16]held     // configurations that it confirmed
	orders map[uint16]*ordered // not confirmed
	number uint64              // of the last order
	done   uint64              // of the last that it confirmed
	sent   time.Duration
	// waiting is the time since which it has had orders and confirmed none.
	waiting time.Duration

	// The same is in [Leader.shards] and the state, by shard.
	shards     map[uint16]bool   // whose chain it is in, or that are held for it
	left       map[uint16]bool   // that it left, and may still serve in an older epoch
	copyTarget map[uint16]NodeID // shards that are copied to it, and from which node
	copySource map[uint16]NodeID // shards that are copied from it, and to which node
	wiping     map[uint16]bool   // left, and maybe not deleted or looked through yet
	wipes      bool              // deletes, and did so before this leader
	kept       map[uint16]bool   // left, or copies again, and keeps from before (C7)

	sweeps   bool // it takes floors, and collects tombstones
	pressing bool // and these fill its table

	registration     *Registration // with another incarnation: its state is gone
	claimed          time.Duration
	former           map[uint64]bool // incarnations that it had in this term
	refused          string
	failures         int           // copies that it could not complete
	failure          string        // why, the last time; empty: it completed one since
	tagsSince        uint64        // the phase of tags that it confirmed (T6)
	controllersSince uint64        // the set of controllers that it follows (L7)
	noTags           string        // why it cannot go to the newest, or to none with tags
	fences           int           // recent suspicions
	fencedAt         time.Duration // time of the last
	why              string        // and why
	convicted        bool          // it was suspected for another reason than a heartbeat timeout
	rests            time.Duration // it joins no chain until then
	distrust         time.Duration // placement does not use it until then
}

func (l *Leader) newNode(id NodeID) *node {
	n := &node{
		id: id, lastSeen: l.time, has: make(map[uint16]held), orders: make(map[uint16]*ordered), shards: make(map[uint16]bool),
		left: make(map[uint16]bool), copyTarget: make(map[uint16]NodeID), copySource: make(map[uint16]NodeID),
		wiping: make(map[uint16]bool), former: make(map[uint64]bool),
		kept: make(map[uint16]bool),
	}
	l.nodes[id] = n
	l.names[l.state.Nodes[id].Name] = id
	l.hail(n)
	return n
}

// hail sends a node the term. It answers with its inventory.
func (l *Leader) hail(n *node) {
	if l.state.Nodes[n.id].Standing != Removed {
		n.known, n.waiting = false, l.time
		clear(n.has)
		clear(n.orders)
		clear(n.wiping)
		for _, number := range sorted(n.kept) {
			l.unkeep(n, number)
		}
		l.busy[n.id], l.unsent[n.id] = n, n
	}
}

// lives reports whether a node is the one that the cluster knows by this ID.
func (l *Leader) lives(n *node, incarnation uint64) bool {
	r := l.state.Nodes[n.id]
	return r.Incarnation == incarnation && r.Standing != Removed && !l.gone[n.id]
}

// account records that this leader knows everything that a node may have from an earlier term.
func (l *Leader) account(n *node) {
	if n.counted {
		return
	}
	n.counted = true
	if l.unaccounted--; l.unaccounted == 0 {
		for number := range l.shards {
			if !l.shards[number].active {
				l.drive(uint16(number))
			}
		}
	}
}

// mayHave reports whether a node may have anything of a shard.
func (n *node) mayHave(number uint16) bool {
	_, has := n.has[number]
	return has || !n.known || n.orders[number] != nil || n.wiping[number] || n.wipes
}

func (l *Leader) received(n *node) {
	if l.time-n.lastSeen > l.state.Settings.Suspect {
		n.waiting = l.time // it could not apply them before
	}
	l.notePause(n)
	n.lastSeen, n.listened, l.lastSeen = l.time, l.listened, l.time
	if l.suspects[n.id] == heartbeatTimeout {
		delete(l.suspects, n.id)
	}
	if n.timeout != nil {
		l.byHeartbeat.MoveToBack(n.timeout)
	}
}

func (l *Leader) heartbeat(n *node, b *Heartbeat) {
	l.received(n)
	if l.isAway(n) {
		n.waiting = l.time // it could not apply them before, though its data plane answered
	}
	n.agentSeen, n.departed = l.listened, false
	l.departs(n, b.Departing)
	l.tagsConfirmed(n, b)
	n.controllersSince = b.ControllersSince
	if b.Term == l.term {
		if b.Done > n.done {
			l.confirm(n, b.Done)
		}
		if b.Wiping == 0 && (len(n.wiping) > 0 || n.wipes) {
			clear(n.wiping)
			n.wipes = false
			l.dirty = true
		}
		l.refusal(n, b.Refused)
		for i := range b.Copies {
			l.progress(n, &b.Copies[i])
		}
	}
	if l.state.Nodes[n.id].Standing.Fenced() && n.known && len(n.orders) == 0 && !l.back[n.id] {
		l.back[n.id], l.dirty = true, true
	}
	if behind := b.Term != l.term || !n.known || len(n.orders) > 0; behind && l.unsent[n.id] == nil && l.time-n.sent >= l.options.Resend {
		l.sendOrder(n)
	}
}

// inventory handles a node's inventory. Later ones of a term come from a restarted agent, and show which copies it lost.
func (l *Leader) inventory(n *node, configs map[uint16]chain.ShardConfig) {
	l.received(n)
	if n.known {
		for _, number := range sorted(n.copyTarget) {
			lost := configs[number].State == chain.None // also if it keeps the shard from before
			if lost && l.shards[number].active && !l.shards[number].complete {
				l.give(n, number, l.wanted(n.id, number))
			}
		}
		return
	}
	n.known, n.wipes, n.waiting = true, true, l.time
	delete(l.busy, n.id)
	l.dirty = true
	touched := maps.Clone(n.shards)
	for _, number := range sorted(configs) {
		if int(number) >= len(l.shards) {
			continue
		}
		touched[number] = true
		c := configs[number]
		if c.Base != 0 {
			l.keep(n, number)
		}
		if c.State == chain.None {
			continue
		}
		n.has[number] = held{epoch: c.Epoch, state: c.State, learner: c.Learner, floor: c.Floor, bar: c.Bar}
		l.found(n, number)
	}
	var out []uint16
	for _, number := range sorted(n.left) {
		if _, has := n.has[number]; !has {
			out = append(out, number)
		}
	}
	l.isOut(n, out)
	l.account(n)
	for _, number := range sorted(touched) {
		l.order(n, number)
		l.drive(number)
	}
}

// found compares a node's configuration of a shard with the durable one.
func (l *Leader) found(n *node, number uint16) {
	s, h := &l.state.Shards[number], n.has[number]
	switch {
	case !slices.Contains(s.Members, n.id):
		if !h.learner {
			l.leave(n, number)
		}
	case h.epoch == s.Epoch && h.state == chain.Active && s.FrozenFor == 0 && !l.shards[number].active:
		l.activate(number) // an earlier leader saw to it that it may be
	case h.epoch > s.Epoch:
		l.emit(Event{fmt.Sprintf("node %s has shard %d in epoch %d, but the stored state in %d: was an old state restored?",
			l.name(n.id), number, h.epoch, s.Epoch)})
	}
}

func (l *Leader) name(id NodeID) string {
	if n := l.state.Nodes[id]; n != nil {
		return n.Name
	}
	return fmt.Sprint("number ", id)
}

// register handles a registration. New facts wait for the next change. A node without its state is another node under
// the same name: it waits for the heartbeat timeout of the one before, because a node may have been started twice.
func (l *Leader) register(h Registration) error {
	if err := l.admits(&h); err != nil {
		return err
	}
	id, registered := l.names[h.Name]
	if !registered {
		l.registrations[h.Name], l.dirty = h, true
		return nil
	}
	n, r := l.nodes[id], l.state.Nodes[id]
	if n.former[h.Incarnation] {
		return fmt.Errorf("node %s was started without its state since", h.Name) // a late message
	}
	if r.Incarnation != h.Incarnation {
		n.registration = &h
		if !l.gone[id] {
			n.claimed, l.claims[id] = l.time, n
		}
		return nil
	}
	n.registration = nil
	delete(l.gone, id)
	delete(l.claims, id)
	l.received(n)
	n.sent = l.time - l.options.Resend // its next heartbeat shows the orders that it lacks
	if r.API != h.API || r.Capacity != h.Capacity || !maps.Equal(r.Labels, h.Labels) {
		l.registrations[h.Name], l.dirty = h, true
	}
	return nil
}

// admits returns an error if a registration is invalid.
func (l *Leader) admits(h *Registration) error {
	s := &l.state.Settings
	switch {
	case h.Name == "":
		return fmt.Errorf("a node needs a name")
	case h.Incarnation == 0:
		return fmt.Errorf("node %s has no incarnation", h.Name)
	case h.Cluster != "" && h.Cluster != s.Cluster:
		return fmt.Errorf("node %s belongs to cluster %s, and this is %s: join that one, or start the node without its state",
			h.Name, h.Cluster, s.Cluster)
	case h.Shards != 0 && h.Shards != s.Shards:
		return fmt.Errorf("node %s was made for %d shards, and the cluster has %d: start it without its state", h.Name, h.Shards, s.Shards)
	case h.CellBytes < s.CellBytes:
		return fmt.Errorf("node %s stores values of %d bytes, and the cluster's have up to %d: start it with cells of that size",
			h.Name, h.CellBytes, s.CellBytes)
	case !h.Addr.Addr().Is4() || h.Addr.Port() == 0:
		return fmt.Errorf("node %s has the address %v: an IPv4 address and port are needed", h.Name, h.Addr)
	}
	for _, id := range sorted(l.state.Nodes) {
		r := l.state.Nodes[id]
		if r.Name != h.Name && r.Standing != Removed && r.Addr == h.Addr {
			return fmt.Errorf("node %s has the address %v, which is node %s's: give it another, or remove that node", h.Name, h.Addr, r.Name)
		}
		if r.Name != h.Name {
			continue
		}
		if r.Standing == Removed {
			return fmt.Errorf("node %s was removed from the cluster: start it without its state, with another name", h.Name)
		}
		if r.Incarnation == h.Incarnation && r.Addr != h.Addr {
			return fmt.Errorf("node %s is known at %v, and says it is at %v: start it there, or without its state", h.Name, r.Addr, h.Addr)
		}
	}
	return l.admitsBeside(h)
}

// admitsBeside compares a registration with those that are not durable yet.
func (l *Leader) admitsBeside(h *Registration) error {
	for _, name := range sorted(l.registrations) {
		if other := l.registrations[name]; name != h.Name && other.Addr == h.Addr {
			return fmt.Errorf("node %s has the address %v, as has node %s, which joins now", h.Name, h.Addr, name)
		}
	}
	return nil
}
