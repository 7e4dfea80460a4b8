package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// watch checks the invariants of spec/protocol.md after every step, as far as the step can have touched them.
type watch struct {
	w      *world
	acked  []uint64 // by key: newest version that was answered with OK
	active []uint32 // by shard: newest epoch in which a node was active
	whole  []uint32 // by shard: newest epoch in which all members were active
	lost   []bool   // by shard: the last copy was lost, so clients may see anything
	failed error    // of a plane, not of the protocol
}

func newWatch(w *world) watch {
	return watch{
		w: w, acked: make([]uint64, len(w.keys)), active: make([]uint32, w.Shards), whole: make([]uint32, w.Shards),
		lost: make([]bool, w.Shards),
	}
}

// fail ends the run: a plane does not work at all.
func (v *watch) fail(err error) {
	if err != nil && v.failed == nil {
		v.failed = err
	}
}

// received checks the effect of a datagram on a node.
func (v *watch) received(n *node, m *wire.Message) {
	key := v.w.keyNumber(m.Key)
	if key == every {
		return
	}
	v.checkObject(n, key)
	v.checkChain(m.Key.Shard(v.w.Shards), key)
}

// answered remembers that a write was answered with OK.
func (v *watch) answered(request, reply *wire.Message) {
	old := request.Op == wire.OpReply // in a bundle that goes on
	if old || reply.Op != wire.OpReply || reply.Status() != wire.StatusOk || request.Op == wire.OpRead ||
		request.ClientOp == wire.OpRead {
		return
	}
	if key := v.w.keyNumber(reply.Key); key != every {
		v.acked[key] = max(v.acked[key], reply.Version)
	}
}

// checkObject is I1 and I2: committed never passes version, and neither goes down.
func (v *watch) checkObject(n *node, key int) {
	o, before := v.object(n, key), &n.seen[key]
	shard := int(v.w.keys[key].Shard(v.w.Shards))
	switch {
	case o.Committed > o.Version:
		v.w.broken(shard, key, "I1: %s has committed %d of version %d", n.name, o.Committed, o.Version)
	case o.Version < before.Version:
		v.w.broken(shard, key, "I2: %s went from version %d to %d", n.name, before.Version, o.Version)
	case o.Committed < before.Committed:
		v.w.broken(shard, key, "I2: %s went from committed %d to %d", n.name, before.Committed, o.Committed)
	case o.Version == before.Version && before.Version != 0 && !sameValue(&o, before):
		v.w.broken(shard, key, "I2: %s changed the value of version %d", n.name, o.Version)
	}
	if o.Version != before.Version || o.Committed != before.Committed {
		o.Value = bytes.Clone(o.Value)
		*before = o
	}
}

// object is a node's copy of an object, zero if it has none.
func (v *watch) object(n *node, key int) chain.Object {
	o, _, err := n.plane.Object(v.w.keys[key])
	v.fail(err)
	return o
}

// settled are the members of a shard's chain, if all of them are active in its epoch: head first, without a learner.
func (v *watch) settled(shard uint16) []*node {
	s := &v.w.store.state.Shards[shard]
	var members []*node
	for _, id := range s.Members {
		n := v.w.nodeOf(id)
		if n == nil || !n.up {
			return nil
		}
		c := &n.configs[shard]
		if c.Epoch != s.Epoch || c.State != chain.Active {
			return nil
		}
		if !c.Learner {
			members = append(members, n)
		}
	}
	return members
}

// checkChain is I3 to I6, which speak of one key along an active chain.
func (v *watch) checkChain(number uint16, key int) {
	members := v.settled(number)
	if len(members) == 0 {
		return
	}
	shard := int(number)
	bar := v.w.store.state.Shards[number].Bar
	tail := uncollected(members[len(members)-1].seen[key], bar)
	tail.Committed = tail.Version // all of it is committed (C2)
	if acked := v.acked[key]; tail.Committed < acked && (acked > bar || tail.Version != 0) {
		v.w.broken(shard, key, "I6: version %d was answered with OK, but the tail has committed %d", acked, tail.Committed)
	}
	above := ^uint64(0)
	for _, n := range members {
		held := uncollected(n.seen[key], bar) // as it was checked when it changed last
		o := &held
		switch {
		case o.Version > above:
			v.w.broken(shard, key, "I4: %s has version %d, its predecessor %d", n.name, o.Version, above)
		case o.Committed > tail.Committed && (o.Committed > bar || tail.Version != 0):
			v.w.broken(shard, key, "I3: %s has committed %d, the tail %d", n.name, o.Committed, tail.Committed)
		case o.Clean() && (o.Version != tail.Version || !sameValue(o, &tail)):
			v.w.broken(shard, key, "I5: %s has a clean version %d, the tail version %d, or their values differ", n.name,
				o.Version, tail.Version)
		}
		above = o.Version
	}
}

// uncollected is what stands for an object in comparisons: nothing for a tombstone that may be collected (G4), which
// others have collected, or not.
func uncollected(o chain.Object, bar uint64) chain.Object {
	if o.Tombstone && o.Version <= bar {
		return chain.Object{}
	}
	return o
}

func sameValue(a, b *chain.Object) bool {
	return a.Tombstone == b.Tombstone && bytes.Equal(a.Value, b.Value)
}

// configured checks the shards that new configurations affect.
func (v *watch) configured(n *node, shards []uint16) {
	for _, shard := range shards {
		c := &n.configs[shard]
		if c.State == chain.Active && c.Epoch > v.active[shard] {
			v.active[shard] = c.Epoch
			v.w.note(int(shard), every, "epoch %d begins to be active", c.Epoch)
		}
		for _, other := range v.w.nodes {
			v.checkReader(other, shard)
		}
		v.checkShard(shard)
	}
}

// stored checks the shard that a change of the durable state affects.
func (v *watch) stored(shard uint16) { v.checkShard(shard) }

// lose notes that a shard's last copy was lost. The history of its keys is not checked then.
func (v *watch) lose(shard uint16) {
	if !v.lost[shard] {
		v.lost[shard] = true
		v.w.result.Lost++
	}
	for key := range v.w.keys {
		if v.w.keys[key].Shard(v.w.Shards) == shard {
			v.acked[key] = 0
		}
	}
}

func (v *watch) checkShard(shard uint16) {
	if v.settled(shard) == nil {
		return
	}
	if s := &v.w.store.state.Shards[shard]; s.Epoch > v.whole[shard] {
		if v.whole[shard] != 0 {
			v.w.result.Reconfigurations++
		}
		v.whole[shard] = s.Epoch
	}
	for key := range v.w.keys {
		if v.w.keys[key].Shard(v.w.Shards) == shard {
			v.checkChain(shard, key)
		}
	}
}

// proposed checks C6 in the changes that a leader makes durable: it removes no node from a chain of two whose heartbeat it
// received within the last Sure.
func (v *watch) proposed(c *controller, change *reconfig.Change) {
	state := c.leader.State()
	s := &state.Settings
	for number, after := range change.Shards {
		before := &state.Shards[number]
		if wanted := v.w.store.state.Settings.Replicas + int(min(before.Extra, after.Extra)); wanted < 2 ||
			change.Replicas == 1 || len(complete(before)) < 2 || len(complete(&after)) >= 2 {
			continue
		}
		for _, id := range complete(before) {
			n := v.w.nodeOf(id)
			if slices.Contains(complete(&after), id) || n == nil || !n.up || n.incarnation != state.Nodes[id].Incarnation ||
				n.configs[number].State == chain.None || n.agent != nil && n.agent.member.Heartbeat().Refused != "" {
				continue // it lost a copy, and is removed for refusing its orders
			}
			// Clocks drift apart by a tenth at most. A node that is heard may not apply its orders.
			if silent := time.Duration(v.w.now - max(c.leads, c.lastSeen[id])); silent > s.Suspect/2 &&
				silent < s.Sure-s.Sure/10 {
				v.w.broken(int(number), every, "C6: %s, silent for %v, is taken out of a chain of two", n.name, silent)
			}
		}
	}
}

// complete lists the members of a shard that have all of it.
func complete(s *reconfig.Shard) []reconfig.NodeID {
	return slices.DeleteFunc(slices.Clone(s.Members), func(id reconfig.NodeID) bool { return id == s.Learner })
}

// checkReader is C1 as an invariant: once a chain is active, no client may read by an older one.
func (v *watch) checkReader(n *node, shard uint16) {
	if c := &n.configs[shard]; n.mayRead(shard) && c.Epoch < v.active[shard] {
		v.w.broken(int(shard), every, "C1: %s may read by epoch %d, but epoch %d is active", n.name, c.Epoch, v.active[shard])
	}
}

// agree reports whether all members of all chains hold the same, all clean.
func (v *watch) agree() bool { return v.disagreement(nil) }

// checkAgreement is I7: once all messages have arrived and the agents had time, the members agree.
func (v *watch) checkAgreement() {
	v.disagreement(func(shard, key int, n *node, o, tail *chain.Object) {
		v.w.broken(shard, key, "I7: after all has arrived %s has version %d (committed %d), the tail %d",
			n.name, o.Version, o.Committed, tail.Version)
	})
}

// disagreement calls tell for each difference, and reports whether there is none.
func (v *watch) disagreement(tell func(shard, key int, n *node, o, tail *chain.Object)) bool {
	same := true
	for key := range v.w.keys {
		shard := v.w.keys[key].Shard(v.w.Shards)
		members := v.settled(shard)
		if len(members) == 0 {
			continue // which is told elsewhere
		}
		bar := v.w.store.state.Shards[shard].Bar
		tail := uncollected(v.object(members[len(members)-1], key), bar)
		tail.Committed = tail.Version
		for i, n := range members {
			o := uncollected(v.object(n, key), bar)
			if i == len(members)-1 {
				o = tail
			}
			if o.Clean() && o.Version == tail.Version && sameValue(&o, &tail) {
				continue
			}
			same = false
			if tell != nil {
				tell(int(shard), key, n, &o, &tail)
			}
		}
	}
	return same
}
