package chain

import (
	"math"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// read is R1 to R5, for a client's READ and for one that another node forwarded.
func (r *request) read() wire.Outcome {
	c := &r.shard.config
	object := r.node.objects[r.message.Key]
	if r.relaxed() {
		return r.answerRead(object, wire.OutcomeAnsweredRelaxed)
	}
	switch {
	case r.permitted() && r.clean(object):
		return r.answerRead(object, r.cleanOutcome())
	case r.permitted() && c.Tail():
		// A frozen tail may be new: the tail before it may still answer an older version under its lease.
		return r.busy(wire.OutcomeBusy)
	case c.Tail():
		return r.busy(wire.OutcomeNoLease)
	}
	return r.pass(c.tail())
}

// cleanOutcome tells reads that came straight from a client from those that needed the tail.
func (r *request) cleanOutcome() wire.Outcome {
	if r.message.Op == wire.OpForward {
		return wire.OutcomeAnsweredTail
	}
	return wire.OutcomeAnsweredClean
}

// relaxed is R5: it reports whether the node may answer with any version it has.
func (r *request) relaxed() bool {
	switch r.message.Flags {
	case wire.FlagAny:
		return true
	case wire.FlagBounded:
		bound := uint64(r.message.Detail) * uint64(time.Millisecond)
		until := r.node.leaseEnd(r.shard)
		if until == 0 { // never granted, or withdrawn
			return false
		}
		return until > math.MaxUint64-bound || r.now < until+bound
	}
	return false
}

func (r *request) answerRead(object *Object, outcome wire.Outcome) wire.Outcome {
	if object != nil && !object.absent() && !r.affords(object.Value) {
		return r.busy(wire.OutcomeLimited)
	}
	r.shard.load.Reads++
	if object == nil {
		r.answer(wire.StatusNotFound, 0, nil, 0)
		return wire.OutcomeAnsweredAbsent
	}
	object.Reads++
	flags := wire.Flag(0)
	if !r.clean(object) {
		flags = wire.FlagDirty
	}
	if object.absent() {
		r.answer(wire.StatusNotFound, object.Version, nil, flags)
		return wire.OutcomeAnsweredAbsent
	}
	r.answer(wire.StatusOk, object.Version, object.Value, flags)
	return outcome
}

// Nearby is R6: a read by a process of the node's machine. It returns the object if the node would answer a READ from it at
// once, and the epoch; ok is false if the process has to ask through the network.
func (n *Node) Nearby(now uint64, key wire.Key) (o Object, epoch uint32, ok bool) {
	s := &n.shards[key.Shard(n.options.Shards)]
	r := request{node: n, shard: s, now: now, without: n.options.Without}
	object := n.objects[key]
	if object == nil || object.absent() || !object.Clean() || !r.permitted() {
		return o, 0, false
	}
	object.Reads++
	s.load.Reads++
	n.counters[Counter{Op: wire.OpRead, Outcome: wire.OutcomeAnsweredClean}]++
	return *object, s.config.Epoch, true
}
