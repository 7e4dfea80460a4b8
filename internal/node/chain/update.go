package chain

import "github.com/netcraq/netcraq/wire"

// update is W6 and W7: apply iff newer, record iff newer, pass on in every case. A late update (G3) is not applied and needs
// no object: a collected object stays collected.
func (r *request) update() wire.Outcome {
	n, m := r.node, r.message
	if len(m.Value) > n.options.CellBytes {
		return wire.OutcomeTooLarge
	}
	last, found := r.session(false)
	if found != recordable {
		return wire.OutcomeFull
	}
	object := n.objects[m.Key]
	late := r.late(m.Version)
	if object == nil && !late {
		if object = n.object(m.Key); object == nil {
			return wire.OutcomeFull
		}
	}
	outcome := wire.OutcomeStale
	if !late && m.Version > object.Version {
		r.shard.apply(object, m.Version, m.Value, r.op == wire.OpDelete)
		outcome = wire.OutcomeApplied
		if r.shard.config.Tail() {
			outcome = wire.OutcomeCommitted
		}
	}
	if m.Seq > last.Seq {
		r.record(m.Version, m.Value)
	}
	r.hand(object, m.Version, m.Value)
	return outcome
}

// ack is W8.
func (r *request) ack() wire.Outcome {
	object := r.node.objects[r.message.Key]
	switch {
	case object == nil && r.late(r.message.Version):
		return wire.OutcomeStale
	case object == nil:
		return wire.OutcomeAhead
	case r.without&W8 != 0:
		object.commit(object.Version, r.shard.config.Epoch)
		return wire.OutcomeAcked
	case r.message.Version > object.Version:
		return wire.OutcomeAhead
	case r.message.Version > object.Committed:
		object.commit(r.message.Version, r.shard.config.Epoch)
		return wire.OutcomeAcked
	}
	return wire.OutcomeStale
}

// relay is W8 for an ACK that travels up the chain: the head answers the client.
func (r *request) relay() wire.Outcome {
	outcome := r.ack()
	if outcome == wire.OutcomeAhead {
		return outcome
	}
	c, m := &r.shard.config, r.message
	if c.Head() {
		r.answer(wire.StatusOk, m.Version, m.Value, 0)
	} else {
		r.send(c.Members[c.Self-1], *m)
	}
	return outcome
}

// probe is W9: the tail repeats its ACK to a node that asks.
func (r *request) probe() wire.Outcome {
	if !r.shard.config.Tail() {
		return wire.OutcomeMalformed
	}
	committed := uint64(0)
	if object := r.node.objects[r.message.Key]; object != nil {
		object.commit(object.Version, r.shard.config.Epoch)
		committed = object.Committed
	} else if r.late(r.message.Version) { // collected here
		committed = r.message.Version
	}
	r.sendAck(r.from, committed)
	return wire.OutcomeProbed
}

// Probe returns the message of a member that asks whether its version of an object is committed (W9): if only the ACK
// was lost, the tail's answer makes the object clean.
func Probe(c ShardConfig, shard uint16, key wire.Key, o Object) (Send, bool) {
	if c.State != Active || c.Tail() || o.Clean() {
		return Send{}, false
	}
	return Send{c.tail(), wire.Message{Op: wire.OpProbe, Shard: shard, Epoch: c.Epoch, Key: key, Version: o.Version}}, true
}

// Resync returns the message of a node about an object that has stayed dirty (W9): an inner node a PROBE to the tail;
// the head the object's UPDATE once more, because a client that gave up would otherwise leave it dirty, and CAS and
// ADD busy, for ever. own is a session of the node itself, used if the entry of the writer is gone.
func Resync(c ShardConfig, shard uint16, key wire.Key, o Object, writer Session, session, own uint64) (Send, bool) {
	send, due := Probe(c, shard, key, o)
	if !due || !c.Head() || o.Version <= c.Bar { // a late UPDATE would settle nothing (G3)
		return send, due
	}
	m := send.Message
	m.Op, m.Client, m.Value = wire.OpUpdate, c.Members[c.Self], o.Value
	m.Session, m.Seq, m.ClientOp, m.Operand = session, writer.Seq, writer.Op, writer.operandOf(o.Value)
	if writer.Seq == 0 {
		m.Session, m.Seq, m.ClientOp, m.Operand = own, o.Version, wire.OpPut, 0
		if o.Tombstone {
			m.ClientOp = wire.OpDelete
		}
	}
	return Send{c.next(), m}, true
}

// WriterOf reports whether the session's last write is the one that gave the object of key its version.
func (s Session) WriterOf(key wire.Key, version uint64) bool {
	return s.Status == wire.StatusOk && s.KeyLo == key.Lo && s.Version == version && s.Seq != 0
}
