package chain

import (
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// bundle is a received bundle on its way through the slots (B1 to B5).
type bundle struct {
	node   *Node
	now    uint64
	from   netip.AddrPort
	slots  wire.Bundle
	chain  *ShardConfig   // of the first message whose shard is served here (B4); nil before that one
	client netip.AddrPort // receiver of the replies
	fresh  bool           // a slot's message became a reply here
	most   wire.Op        // op of the slot that decides where the bundle goes (B5); 0: none yet
	member netip.AddrPort // where it goes if most is not a reply
}

// ReceiveBundle handles a datagram for which [wire.IsBundle] is true. It overwrites the datagram with the one to send to
// the returned address. sends is false if there is nothing to send. now is that of [Node.Receive].
func (n *Node) ReceiveBundle(now uint64, from netip.AddrPort, datagram wire.Bundle) (to netip.AddrPort, sends bool) {
	if !datagram.Sound() {
		n.counters[Counter{wire.OpBundle, wire.OutcomeMalformed}]++
		return to, false
	}
	b := &bundle{node: n, now: now, from: from, slots: datagram, client: from}
	for i := range datagram.Count() {
		b.handle(i)
	}
	switch {
	case b.most == 0, b.most == wire.OpReply && !b.fresh && b.client == from: // two nodes would play ball with old replies
		return to, false
	case b.most == wire.OpReply:
		return b.client, true
	}
	return b.member, true
}

// handle is B2: the slot gets the outgoing message.
func (b *bundle) handle(i int) {
	encoded, sound := b.slots.Message(i)
	var m wire.Message
	switch {
	case !sound:
		b.node.counters[Counter{Outcome: wire.OutcomeTruncated}]++
		b.slots.Clear(i)
		return
	case len(encoded) == 0:
		return
	case wire.Peek(encoded, &m) && m.Op == wire.OpReply:
		b.note(&Send{Message: m})
		return
	}
	r := &request{
		node: b.node, now: b.now, from: b.from, client: b.from, message: &m,
		// W2 and W5 hold in bundles even where a test switches them off.
		without: b.node.options.Without &^ (W2 | W5), climb: true, slotted: true,
	}
	outcome := wire.Decode(encoded, &m)
	if outcome == wire.Accepted {
		outcome = b.admit(r)
	}
	b.node.counters[Counter{m.Op, outcome}]++
	if len(r.out) == 0 || !b.slots.Put(i, &r.out[0].Message) {
		b.slots.Clear(i)
		return
	}
	b.fresh = b.fresh || r.out[0].Message.Op == wire.OpReply
	b.note(&r.out[0])
}

// admit is A9 and A10 for a message in a slot, with B3 and B4, before any state changes.
func (b *bundle) admit(r *request) wire.Outcome {
	m := r.message
	outcome := r.locate()
	if outcome != wire.Accepted {
		r.out = nil
		return outcome
	}
	c := &r.shard.config
	if c.State != None && b.chain == nil {
		b.chain = c
	}
	if r.op != m.Op && c.State != None && c.other(b.from) { // a member names its client
		b.client = r.client
	}
	switch {
	case c.State == None && m.Op.IsChain():
		return wire.OutcomeNotMine
	case !m.Op.IsChain():
		if b.single(r) {
			return r.busy(wire.OutcomeBusy)
		}
	case m.Op == wire.OpAck || m.Op == wire.OpProbe:
		return wire.OutcomeMalformed
	case !b.fits(c):
		return wire.OutcomeStranger
	case m.Op == wire.OpForward && r.op != wire.OpRead, r.op == wire.OpAdd:
		return wire.OutcomeMalformed
	case m.Op == wire.OpForward && c.other(b.from) && b.readSingle(r):
		return r.busy(wire.OutcomeBusy)
	}
	return r.serve()
}

// single reports whether a client has to send the message again as a single message, outside a bundle (B3, B4).
func (b *bundle) single(r *request) bool {
	switch r.op {
	case wire.OpRead:
		return r.shard.config.State == None || r.message.Flags != 0 || b.readSingle(r)
	case wire.OpAdd:
		return true
	}
	return b.writeSingle(r)
}

// readSingle reports whether the answer or the FORWARD does not fit the slot, or the FORWARD is of another chain (B4).
func (b *bundle) readSingle(r *request) bool {
	c := &r.shard.config
	object := b.node.objects[r.message.Key]
	switch {
	case r.permitted() && r.clean(object):
		return object != nil && !object.absent() && wire.VersionBytes+len(object.Value) > b.slots.Room()
	case c.Tail():
		return false // BUSY for a reason of its own
	}
	return b.slots.Room() < wire.ChainBytes || !b.fits(c)
}

// writeSingle reports whether the write is not a new one that the head can order at once.
func (b *bundle) writeSingle(r *request) bool {
	n, m, c := b.node, r.message, &r.shard.config
	if !b.fits(c) || len(m.Value) > n.options.CellBytes || m.Epoch != c.Epoch || c.State != Active || !c.Head() {
		return true
	}
	last, found := r.session(true)
	if found != recordable || m.Seq <= last.Seq {
		return found != recordable || m.Seq == last.Seq
	}
	object := n.objects[m.Key]
	if m.Op == wire.OpCAS && (!r.clean(object) || !matches(object, m.Operand)) {
		return true
	}
	return object == nil && len(n.objects) >= n.options.MaxObjects
}

// fits is B4: it reports whether a shard has the chain of the bundle.
func (b *bundle) fits(c *ShardConfig) bool {
	return b.chain != nil && c.Self == b.chain.Self && slices.Equal(c.Members, b.chain.Members)
}

// rank orders the ops in slots by their precedence in B5.
func rank(op wire.Op) int {
	return slices.Index([]wire.Op{wire.OpReply, wire.OpRelay, wire.OpForward, wire.OpUpdate}, op)
}

// note keeps where the bundle goes now that a slot holds s.
func (b *bundle) note(s *Send) {
	if b.most == 0 || rank(s.Message.Op) > rank(b.most) {
		b.most, b.member = s.Message.Op, s.To
	}
}
