package chain

import (
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// request is one received message on its way through the rules.
type request struct {
	node    *Node
	now     uint64
	from    netip.AddrPort
	client  netip.AddrPort // receiver of the answer
	op      wire.Op        // the client's operation
	message *wire.Message
	shard   *shard // nil until the shard is known
	without Rule   // rules switched off
	climb   bool   // a tail's ACK travels up the chain (W7)
	slotted bool   // in a bundle
	out     []Send
}

// Receive takes one datagram and appends to out the messages to send, in order. now is in nanoseconds on the clock
// of [Node.Grant]. Values in the result alias the datagram or the node's state: encode them before the next call. A
// datagram for which [wire.IsBundle] is true goes to [Node.ReceiveBundle] instead.
func (n *Node) Receive(now uint64, from netip.AddrPort, datagram []byte, out []Send) []Send {
	var m wire.Message
	r := &request{
		node: n, now: now, from: from, client: from, message: &m,
		without: n.options.Without, climb: n.options.Relay, out: out,
	}
	outcome := wire.Decode(datagram, &m)
	switch outcome {
	case wire.Accepted:
		if outcome = r.locate(); outcome == wire.Accepted {
			outcome = r.serve()
		}
	case wire.OutcomeBadRequest:
		r.answer(wire.StatusBadRequest, 0, nil, 0)
	}
	n.counters[Counter{m.Op, outcome}]++
	return r.out
}

// locate finds the shard, as far as A9 asks whether there is such a shard and key at all.
func (r *request) locate() wire.Outcome {
	n, m := r.node, r.message
	r.op = m.Op
	switch m.Op {
	case wire.OpForward, wire.OpUpdate, wire.OpRelay:
		r.client, r.op = m.Client, m.ClientOp
	}
	if int(m.Shard) >= len(n.shards) {
		return r.notMine()
	}
	if m.Key.Shard(len(n.shards)) != m.Shard {
		if m.Op.IsChain() {
			return wire.OutcomeMalformed
		}
		return r.badRequest()
	}
	r.shard = &n.shards[m.Shard]
	return wire.Accepted
}

// serve applies the rest of A9 (is the shard served here?) and A10 (may the sender send this message?).
func (r *request) serve() wire.Outcome {
	c, m := &r.shard.config, r.message
	if c.State == None {
		return r.notMine()
	}
	switch m.Op {
	case wire.OpForward:
		if !c.other(r.from) {
			return wire.OutcomeStranger
		}
		fallthrough
	default:
		if r.op == wire.OpRead {
			return r.read()
		}
		return r.write()
	case wire.OpUpdate, wire.OpAck, wire.OpProbe, wire.OpRelay:
		return r.fromChain()
	}
}

// fromChain checks the conditions of every chain message (W6, W8) and calls its handler.
func (r *request) fromChain() wire.Outcome {
	c := &r.shard.config
	if r.message.Epoch != c.Epoch {
		return wire.OutcomeOtherEpoch
	}
	if c.State != Active {
		return wire.OutcomeInactive
	}
	switch r.message.Op {
	case wire.OpUpdate:
		if c.Head() || r.from != c.Members[c.Self-1] {
			return wire.OutcomeStranger
		}
		return r.update()
	case wire.OpAck:
		if c.Tail() || r.from != c.tail() {
			return wire.OutcomeStranger
		}
		return r.ack()
	case wire.OpRelay:
		if c.Tail() || r.from != c.next() {
			return wire.OutcomeStranger
		}
		return r.relay()
	}
	if !c.other(r.from) {
		return wire.OutcomeStranger
	}
	return r.probe()
}

// clean reports whether no write of the object is under way. An active tail holds committed versions only, whatever
// their mark: a replica that became the tail did not receive the ACK (C2).
func (r *request) clean(object *Object) bool {
	return object == nil || r.shard.config.Settled(object)
}

// permitted is R4: it reports whether this node may reveal state.
func (r *request) permitted() bool {
	return r.shard.config.Readable() && (r.now < r.node.leaseEnd(r.shard) || r.without&R4 != 0)
}

// send queues a message that follows from the received one.
func (r *request) send(to netip.AddrPort, m wire.Message) {
	m.Hops = r.message.Hops + 1
	if r.shard != nil {
		m.Epoch = r.shard.config.Epoch
	} else {
		m.Epoch = 0
	}
	r.out = append(r.out, Send{to, m})
}

// answer sends the client a REPLY.
func (r *request) answer(status wire.Status, version uint64, value []byte, flags wire.Flag) {
	if r.shard != nil && r.shard.config.State != None && r.shard.config.Tail() {
		flags |= wire.FlagTail
	}
	m := r.message
	r.send(r.client, wire.Message{
		Op: wire.OpReply, Flags: flags, Shard: m.Shard, Detail: uint16(status), Request: m.Request, Key: m.Key,
		Version: version, Value: value,
	})
}

// notMine is R3; a chain message is dropped instead of answered.
func (r *request) notMine() wire.Outcome {
	if !r.message.Op.IsChain() {
		r.answer(wire.StatusNotMine, 0, nil, 0)
	}
	return wire.OutcomeNotMine
}

func (r *request) badRequest() wire.Outcome {
	r.answer(wire.StatusBadRequest, 0, nil, 0)
	return wire.OutcomeBadRequest
}

func (r *request) busy(outcome wire.Outcome) wire.Outcome {
	r.answer(wire.StatusBusy, 0, nil, 0)
	return outcome
}

// pass sends the client's message to another member inside a FORWARD.
func (r *request) pass(to netip.AddrPort) wire.Outcome {
	m := *r.message
	m.Op, m.Flags, m.Detail = wire.OpForward, 0, 0
	m.Client, m.ClientOp = r.client, r.op
	r.send(to, m)
	return wire.OutcomeForwarded
}
