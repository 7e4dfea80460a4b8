package sim

import (
	"net/netip"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/wire"
)

// packet is a message on its way.
type packet struct {
	from, to netip.AddrPort
	bytes    []byte
}

func (w *world) send(from netip.AddrPort, s chain.Send) {
	w.flying = append(w.flying, packet{from, s.To, s.Message.Append(nil)})
}

// deliver takes any packet, not the oldest: this is the reordering.
func (w *world) deliver() {
	if len(w.flying) == 0 {
		return
	}
	i := w.rng.IntN(len(w.flying))
	p := w.flying[i]
	if !w.chance(w.Duplicate) {
		last := len(w.flying) - 1
		w.flying[i] = w.flying[last]
		w.flying = w.flying[:last]
	}
	if w.chance(w.Loss) {
		return
	}
	w.arrive(p)
}

func (w *world) arrive(p packet) {
	for _, m := range w.nodes {
		if m.addr == p.to {
			w.receive(m, p)
			return
		}
	}
	for _, c := range w.clients {
		if c.addr == p.to {
			c.receive(p.bytes)
			return
		}
	}
}

func (w *world) receive(m *member, p packet) {
	if m.dead {
		return
	}
	for _, s := range m.node.Receive(w.now, p.from, p.bytes, nil) {
		if s.Message.Op == wire.OpReply && s.Message.Status() == wire.StatusOk {
			w.noteAnswer(p.bytes, &s.Message)
		}
		w.send(m.addr, s)
	}
}

// noteAnswer remembers that a write of this version was answered with OK.
func (w *world) noteAnswer(request []byte, reply *wire.Message) {
	var m wire.Message
	if !wire.Peek(request, &m) || m.Op == wire.OpRead || m.ClientOp == wire.OpRead {
		return
	}
	w.acked[reply.Key] = max(w.acked[reply.Key], reply.Version)
}

// settle does what a node's agent does for an object that stays dirty.
func (w *world) settle() {
	m := w.nodes[w.rng.IntN(len(w.nodes))]
	key := w.keys[w.rng.IntN(len(w.keys))]
	w.settleObject(m, key)
}

func (w *world) settleObject(m *member, key wire.Key) {
	o := m.node.Objects()[key]
	if m.dead || o == nil {
		return
	}
	session, writer := w.writer(m, key, o.Version)
	if s, ok := chain.Settle(m.node.Config(0), 0, key, *o, writer, session, laneOf(m)); ok {
		w.send(m.addr, s)
	}
}

// laneOf is the session a node uses for writes whose writer it does not know.
func laneOf(m *member) uint64 { return 1<<63 | uint64(m.index) }

// writer finds the session whose last write gave the object its version.
func (w *world) writer(m *member, key wire.Key, version uint64) (uint64, chain.Session) {
	found, writer := uint64(0), chain.Session{}
	for k, s := range m.node.Sessions() {
		if s.WriterOf(key, version) && (found == 0 || k.Session < found) {
			found, writer = k.Session, s
		}
	}
	return found, writer
}

// finish lets everything arrive and settle, and checks that the members then agree.
func (w *world) finish() {
	for range 4 * len(w.nodes) {
		for len(w.flying) > 0 {
			p := w.flying[0]
			w.flying = w.flying[1:]
			w.arrive(p)
		}
		for _, m := range w.nodes {
			for _, key := range w.keys {
				w.settleObject(m, key)
			}
		}
	}
	w.check()
	w.checkAgreement()
}
