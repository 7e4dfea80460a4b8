package chain

import (
	"encoding/binary"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// counterBytes is the length of a value that ADD works on.
const counterBytes = 8

// write is W1 to W5, for a client's write and for one that another node forwarded.
func (r *request) write() wire.Outcome {
	c, m := &r.shard.config, r.message
	switch {
	case len(m.Value) > r.node.options.CellBytes:
		r.answer(wire.StatusTooLarge, 0, nil, 0)
		return wire.OutcomeTooLarge
	case m.Epoch != c.Epoch:
		r.answer(wire.StatusNotMine, 0, nil, 0)
		return wire.OutcomeNotMine
	case c.State != Active:
		return r.busy(wire.OutcomeBusy)
	case !c.Head():
		return r.pass(c.Members[0])
	}
	last, found := r.session(true)
	if found != recordable {
		return r.unrecorded(found)
	}
	if r.without&W2 == 0 {
		switch {
		case m.Seq < last.Seq:
			return wire.OutcomeOldSeq
		case m.Seq == last.Seq:
			return r.repeat(last)
		}
	}
	return r.order()
}

func (r *request) sessionKey() SessionKey { return SessionKey{r.message.Session, r.message.Shard} }

// order gives a new write its version (W3), unless CAS or ADD find that they may not (W4, W5).
func (r *request) order() wire.Outcome {
	m := r.message
	object := r.node.objects[m.Key]
	value := m.Value
	switch r.op {
	case wire.OpCAS:
		if r.unsettled(object) {
			return r.busy(wire.OutcomeBusy)
		}
		if !matches(object, m.Operand) {
			return r.refuse(object, wire.StatusCASFailed)
		}
	case wire.OpAdd:
		if r.unsettled(object) {
			return r.busy(wire.OutcomeBusy)
		}
		if object != nil && !object.absent() && len(object.Value) != counterBytes {
			return r.refuse(object, wire.StatusBadRequest)
		}
		value = binary.BigEndian.AppendUint64(nil, counterOf(object)+m.Operand)
	}
	if object = r.node.object(m.Key); object == nil {
		return r.refuse(nil, wire.StatusFull)
	}
	r.shard.apply(object, r.nextVersion(object), value, r.op == wire.OpDelete)
	r.record(object.Version, value)
	r.hand(object, object.Version, value)
	return wire.OutcomeOrdered
}

// nextVersion is G1: the version of a new write is above the object's own and above the floor.
func (r *request) nextVersion(object *Object) uint64 {
	if r.without&G1 != 0 {
		return object.Version + 1
	}
	return max(object.Version, r.shard.config.Floor) + 1
}

// unsettled is W5: an object with a write under way, on whose outcome this one would depend.
func (r *request) unsettled(object *Object) bool {
	return !r.clean(object) && r.without&W5 == 0
}

// matches is the comparison of W4; expecting 0 means expecting no value, never written or deleted.
func matches(object *Object, expected uint64) bool {
	if object == nil {
		return expected == 0
	}
	return object.Version == expected || (expected == 0 && object.absent())
}

func counterOf(object *Object) uint64 {
	if object == nil || object.absent() {
		return 0
	}
	return binary.BigEndian.Uint64(object.Value)
}

// refuse answers a write that had no effect and makes sure that no late copy of it ever has (W4). A refusal that
// reveals state needs the lease.
func (r *request) refuse(object *Object, status wire.Status) wire.Outcome {
	if !r.permitted() {
		return r.busy(wire.OutcomeNoLease)
	}
	version := uint64(0)
	if object != nil {
		version = object.Version
	}
	m := r.message
	s := Session{Seq: m.Seq, Version: version, KeyLo: m.Key.Lo, Op: r.op, Status: status}
	if r.op != wire.OpAdd && !r.node.options.NoDigest {
		s.Result = Digest(m.Operand, m.Value)
	}
	r.keep(s)
	r.answerRefusal(object, version, status)
	if status == wire.StatusFull {
		return wire.OutcomeFull
	}
	return wire.OutcomeRefused
}

// answerRefusal adds the value that made a CAS fail, if it is still the one of that version.
func (r *request) answerRefusal(object *Object, version uint64, status wire.Status) {
	var value []byte
	flags := wire.Flag(0)
	if status == wire.StatusFull {
		flags = wire.FlagNoValue // no copy of the write will take effect
	}
	if status == wire.StatusCASFailed {
		switch {
		case object == nil && version == 0:
		case object == nil || object.Version != version: // nil: it was collected since (G4)
			flags = wire.FlagNoValue
		case object.absent():
		case r.affords(object.Value):
			value = object.Value
		default:
			flags = wire.FlagNoValue
		}
	}
	r.answer(status, version, value, flags)
}

// repeat is W2 for an equal seq: the same version and result as before, never new ones. A version at or below the bar
// is committed, and its object may be collected: the head answers itself (G3).
func (r *request) repeat(last Session) wire.Outcome {
	m := r.message
	object := r.node.objects[m.Key]
	late := last.Status == wire.StatusOk && r.late(last.Version)
	if !r.isRetry(last) || (object == nil && last.Status == wire.StatusOk && !late) {
		return r.badRequest()
	}
	if last.Status != wire.StatusOk {
		if !r.permitted() {
			return r.busy(wire.OutcomeNoLease)
		}
		r.answerRefusal(object, last.Version, last.Status)
		return wire.OutcomeRepeated
	}
	if late {
		r.answer(wire.StatusOk, last.Version, r.counterResult(last), 0)
		return wire.OutcomeRepeated
	}
	value := m.Value
	switch {
	case object.Version == last.Version:
		value = object.Value
	case r.op == wire.OpAdd:
		value = r.counterResult(last)
	}
	r.hand(object, last.Version, value)
	return wire.OutcomeRepeated
}

// counterResult returns the value in the answer to a recorded write: the counter after an ADD.
func (r *request) counterResult(last Session) []byte {
	if r.op != wire.OpAdd {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, last.Result)
}

// late is G3: a version that is at or below the bar is committed on the whole chain.
func (r *request) late(version uint64) bool {
	bar := r.shard.config.Bar
	return bar != 0 && version <= bar && r.without&G3 == 0
}

// record remembers an applied write in its session.
func (r *request) record(version uint64, value []byte) {
	m := r.message
	r.keep(Session{
		Seq: m.Seq, Version: version, Result: r.result(version, value), KeyLo: m.Key.Lo, Op: r.op, Status: wire.StatusOk,
	})
}

// hand gives an ordered write to the next node, or ends it here if this node is also the tail.
func (r *request) hand(object *Object, version uint64, value []byte) {
	c := &r.shard.config
	if c.Tail() {
		r.commit(object, version, value)
		return
	}
	m := *r.message
	m.Op, m.Client, m.ClientOp, m.Version, m.Value = wire.OpUpdate, r.client, r.op, version, value
	r.send(c.next(), m)
}

// commit is W7: the tail answers the client and tells the others. version is that of the write answered, which may be
// older than the object's.
func (r *request) commit(object *Object, version uint64, value []byte) {
	committed := version // of an object that is collected (G3)
	if object != nil {
		object.commit(object.Version, r.shard.config.Epoch)
		committed = object.Committed
	}
	if r.op != wire.OpAdd {
		value = nil
	}
	c := &r.shard.config
	if r.climb && !c.Head() {
		m := *r.message
		m.Op, m.Version, m.Value = wire.OpRelay, version, value
		r.send(c.Members[c.Self-1], m)
		return
	}
	r.answer(wire.StatusOk, version, value, 0)
	for _, member := range c.Members[:c.Self] {
		r.sendAck(member, committed)
	}
}

func (r *request) sendAck(to netip.AddrPort, committed uint64) {
	m := r.message
	r.send(to, wire.Message{Op: wire.OpAck, Shard: m.Shard, Request: m.Request, Key: m.Key, Version: committed})
}
