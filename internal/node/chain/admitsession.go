package chain

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// holder is a group of client addresses (W14).
type holder struct {
	entries int                       // session entries that its clients hold
	refused [wire.RefusedSlots]uint64 // by slot of a session: the time until which no entry is made
}

// recordability tells whether a write can be recorded in its session.
type recordability uint8

const (
	recordable recordability = iota
	noEntry                  // the table is full, or the client holds as many entries as it may
	slotClosed               // a session of the same slot was refused a short time ago
)

// holderOf returns the number of the group that an address belongs to.
func holderOf(client netip.Addr) uint16 {
	const spread = 0x9e3779b1 // 2^32 divided by the golden ratio
	if client = client.Unmap(); !client.Is4() {
		return 0
	}
	a := client.As4()
	return uint16(binary.BigEndian.Uint32(a[:]) * spread >> (32 - bits.Len(wire.SessionHolders-1)))
}

// slotOf returns the slot of a session in a shard.
func slotOf(k SessionKey) int {
	const spread = 0x9e3779b97f4a7c15
	return int((k.Session ^ uint64(k.Shard)) * spread >> (64 - bits.Len(wire.RefusedSlots-1)))
}

// ForgetAfter returns the time without a write after which an entry may be forgotten (W12): no client repeats the write, and no
// copy of it is under way.
func ForgetAfter(t wire.Tags) time.Duration {
	if t == wire.TagsOff {
		return wire.RestS * time.Second
	}
	return wire.TaggedRestS * time.Second
}

// messageLife is the time for which a copy of a refused write may be under way.
func messageLife(t wire.Tags) time.Duration { return ForgetAfter(t) - wire.MaxRetryS*time.Second }

// holder returns the record of a group, made if need be.
func (n *Node) holder(number uint16) *holder {
	h := n.holders[number]
	if h == nil {
		h = new(holder)
		n.holders[number] = h
	}
	return h
}

// session returns the entry of the write's session. A session without one needs room; at the head its client's share
// and its slot are checked too.
func (r *request) session(head bool) (Session, recordability) {
	n, k := r.node, r.sessionKey()
	if s, ok := n.sessions[k]; ok {
		return s, recordable
	}
	if len(n.sessions) >= n.options.MaxSessions {
		return Session{}, noEntry
	}
	if n.options.EarlySessions {
		n.sessions[k] = Session{}
		return Session{}, recordable
	}
	if h := n.holders[holderOf(r.client.Addr())]; head && h != nil {
		switch most := n.options.ClientSessions; {
		case most > 0 && h.entries >= most:
			return Session{}, noEntry
		case r.without&W14 == 0 && r.now < h.refused[slotOf(k)]:
			return Session{}, slotClosed
		}
	}
	return Session{}, recordable
}

// unrecorded answers a write that cannot be recorded, and sees to it that no copy of a refused one is taken later (W14).
func (r *request) unrecorded(why recordability) wire.Outcome {
	switch {
	case why == slotClosed:
		return r.busy(wire.OutcomeBusy)
	case r.node.options.EarlySessions:
		r.answer(wire.StatusFull, 0, nil, 0)
		return wire.OutcomeFull
	}
	if r.without&W14 == 0 {
		h := r.node.holder(holderOf(r.client.Addr()))
		h.refused[slotOf(r.sessionKey())] = r.now + uint64(messageLife(r.node.options.Tags))
	}
	r.answer(wire.StatusFull, 0, nil, wire.FlagNoValue|wire.FlagSession)
	return wire.OutcomeFull
}

// keep records a write in its session. A new entry counts for its client.
func (r *request) keep(s Session) {
	n, k := r.node, r.sessionKey()
	if _, had := n.sessions[k]; !had {
		number := holderOf(r.client.Addr())
		n.holder(number).entries++
		n.owners[k] = number
	}
	n.sessions[k] = s
}

// release takes a deleted entry off its client's count.
func (n *Node) release(k SessionKey) {
	if number, owned := n.owners[k]; owned {
		n.holders[number].entries--
		delete(n.owners, k)
	}
}
