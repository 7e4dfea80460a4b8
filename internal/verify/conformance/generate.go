package conformance

import (
	"encoding/binary"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// message is a packet as clients and nodes send it, with a sender that fits it.
func (r *round) message() (netip.AddrPort, *wire.Message) {
	if len(r.past) > 0 && r.chance(10) {
		again := pick(r.rng, r.past...)
		again.message.Request++
		return again.from, &again.message
	}
	from, m := r.fresh()
	if len(r.past) == pastMessages {
		r.past = r.past[1:]
	}
	r.past = append(r.past, past{from, *m})
	return from, m
}

// past is a message that may come again, as a retry.
type past struct {
	from    netip.AddrPort
	message wire.Message
}

const pastMessages = 16

func (r *round) fresh() (netip.AddrPort, *wire.Message) {
	m := &wire.Message{Key: pick(r.rng, r.keys...), Request: 1 + r.rng.Uint64N(1000)}
	m.Shard = m.Key.Shard(r.options.Shards)
	c := r.state.Shards[m.Shard].Config
	m.Epoch = c.Epoch
	if r.chance(6) {
		m.Epoch += pick(r.rng, 1, ^uint32(0))
	}
	m.Hops = uint8(r.rng.IntN(4))
	if r.chance(2) {
		m.Hops = uint8(wire.MaxHops - 2 + r.rng.IntN(4))
	}
	if r.chance(1) {
		m.Shard = uint16(r.rng.IntN(8))
	}
	from := r.fill(m, &c)
	if r.chance(8) {
		from = pick(r.rng, r.client(), r.node(r.rng.IntN(otherNodes)))
	}
	return from, m
}

// How often each op comes, as upper ends of ranges within 100.
const (
	readsBelow    = 25
	writesBelow   = 50
	forwardsBelow = 58
	updatesBelow  = 78
	relaysBelow   = 84
	acksBelow     = 93
	probesBelow   = 98
)

// nobodySends reports whether n stands for an op that no member of the chain sends to this one.
func nobodySends(n int, c *chain.ShardConfig) bool {
	switch {
	case n >= forwardsBelow && n < updatesBelow:
		return c.Head()
	case n >= updatesBelow && n < acksBelow:
		return c.Tail()
	case n >= acksBelow && n < probesBelow:
		return !c.Tail()
	}
	return false
}

// fill makes a message of a random op and returns a sender of such messages in this chain.
func (r *round) fill(m *wire.Message, c *chain.ShardConfig) netip.AddrPort {
	n := r.rng.IntN(100)
	if nobodySends(n, c) && r.chance(80) {
		n = r.rng.IntN(updatesBelow)
	}
	switch {
	case n < readsBelow:
		r.fillRead(m)
		return r.client()
	case n < writesBelow:
		m.Op = r.writeOp()
		r.fillWrite(m, m.Op)
		return r.client()
	case n < forwardsBelow:
		r.fillPassed(m, wire.OpForward)
		return r.member(c)
	case n < updatesBelow:
		r.fillPassed(m, wire.OpUpdate)
		return r.neighbour(c, -1)
	case n < relaysBelow:
		r.fillPassed(m, wire.OpRelay)
		return r.neighbour(c, +1)
	case n < acksBelow:
		m.Op, m.Version = wire.OpAck, r.version(m.Key)
		return r.neighbour(c, len(c.Members)-1-c.Self)
	case n < probesBelow:
		m.Op, m.Version = wire.OpProbe, r.version(m.Key)
		return r.member(c)
	}
	m.Op = pick(r.rng, wire.OpReply, wire.OpIntent, wire.OpResolve, wire.Op(r.rng.IntN(256)))
	return r.client()
}

func (r *round) client() netip.AddrPort { return Client(1 + r.rng.IntN(roundClients)) }

// member is any other member of the chain, or a node outside it if there is none.
func (r *round) member(c *chain.ShardConfig) netip.AddrPort {
	if len(c.Members) < 2 {
		return r.node(r.rng.IntN(otherNodes))
	}
	i := r.rng.IntN(len(c.Members) - 1)
	if i >= c.Self {
		i++
	}
	return c.Members[i]
}

// neighbour is the member so many places from this node, or any member if there is none.
func (r *round) neighbour(c *chain.ShardConfig, places int) netip.AddrPort {
	if i := c.Self + places; places != 0 && i >= 0 && i < len(c.Members) {
		return c.Members[i]
	}
	return r.member(c)
}

func (r *round) fillRead(m *wire.Message) {
	m.Op = wire.OpRead
	switch r.rng.IntN(10) {
	case 0:
		m.Flags = wire.FlagAny
	case 1:
		m.Flags, m.Detail = wire.FlagBounded, pick[uint16](r.rng, 0, 1, 60_000)
	}
}

func (r *round) writeOp() wire.Op {
	return pick(r.rng, wire.OpPut, wire.OpPut, wire.OpDelete, wire.OpCAS, wire.OpAdd, wire.OpAdd)
}

// fillWrite makes the fields of a client's write.
func (r *round) fillWrite(m *wire.Message, op wire.Op) {
	m.Session = 1 + r.rng.Uint64N(roundSessions)
	m.Seq = r.seqs[m.Session]
	switch {
	case m.Seq == 0 || r.chance(60):
		m.Seq++
		r.seqs[m.Session] = m.Seq
	case r.chance(20):
		m.Seq -= min(m.Seq-1, 1)
	}
	switch op {
	case wire.OpPut, wire.OpCAS:
		most := r.options.CellBytes
		if r.chance(4) {
			most = wire.MaxValueBytes
		}
		m.Value = r.value(most)
	}
	switch op {
	case wire.OpCAS:
		m.Operand = pick(r.rng, 0, r.versions[m.Key], r.version(m.Key))
	case wire.OpAdd:
		m.Operand = pick(r.rng, 1, 1<<32, ^uint64(0), r.rng.Uint64())
	}
	r.repeatWrite(m, op)
}

// repeatWrite makes most writes under the number of an earlier one a true retry (W2).
func (r *round) repeatWrite(m *wire.Message, op wire.Op) {
	last := r.writes[m.Session]
	if m.Seq != last.Seq {
		r.writes[m.Session] = wire.Message{Seq: m.Seq, Key: m.Key, ClientOp: op, Operand: m.Operand, Value: m.Value}
		return
	}
	if m.Key == last.Key && op == last.ClientOp && r.chance(80) {
		m.Operand, m.Value = last.Operand, last.Value
	}
}

// fillPassed makes a FORWARD, UPDATE or RELAY.
func (r *round) fillPassed(m *wire.Message, op wire.Op) {
	m.Op, m.Client, m.ClientOp = op, r.client(), r.writeOp()
	if op == wire.OpForward && r.chance(40) {
		m.ClientOp = wire.OpRead
		return
	}
	r.fillWrite(m, m.ClientOp)
	if op == wire.OpForward {
		return
	}
	m.Version = max(1, r.version(m.Key))
	switch {
	case m.ClientOp == wire.OpAdd:
		m.Value = binary.BigEndian.AppendUint64(nil, r.rng.Uint64())
	case op == wire.OpRelay:
		m.Value = nil
	}
}

// version is one near the newest version that is known of the key.
func (r *round) version(key wire.Key) uint64 {
	v := r.versions[key]
	switch n := r.rng.IntN(10); {
	case n < 4:
		return v
	case n < 8:
		return v + 1
	case n < 9:
		return v + 1 + r.rng.Uint64N(3)
	}
	return v - min(v, 1+r.rng.Uint64N(2))
}
