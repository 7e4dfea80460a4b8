package conformance

import (
	"bytes"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// bundlePercent is how many of random packets are bundles.
const bundlePercent = 20

// bundle makes slots of messages that one sender may well send together.
func (r *round) bundle() (netip.AddrPort, []byte) {
	slotBytes := pick(r.rng, wire.MinSlotBytes, 56, 100, 104, 108, 116, 116, 164, 4*(13+r.rng.IntN(80)))
	most := min(wire.SlotsOf(slotBytes), pick(r.rng, 3, 6, wire.MaxSlots))
	b := wire.NewBundle(nil, 1+r.rng.IntN(most), slotBytes)
	copy(b[wire.BundleBytes:], r.garbage(len(b)-wire.BundleBytes))
	from, m := r.message()
	for i := range b.Count() {
		r.fillSlot(b, i, m)
		m = r.messageFrom(from)
	}
	return from, b
}

// messageFrom is one that the sender may well send; mostly, as a client's message may come from anywhere.
func (r *round) messageFrom(from netip.AddrPort) *wire.Message {
	for {
		sender, m := r.message()
		if sender == from || !m.Op.IsChain() || r.chance(30) {
			return m
		}
	}
}

func (r *round) fillSlot(b wire.Bundle, i int, m *wire.Message) {
	b.Clear(i)
	n := r.rng.IntN(100)
	switch {
	case n < 8:
		return
	case n < 12:
		m = &wire.Message{
			Op: wire.OpReply, Key: m.Key, Shard: m.Shard, Version: r.version(m.Key),
			Value: r.value(max(1, b.Room()-wire.VersionBytes)),
		}
	}
	if !b.Put(i, m) {
		return
	}
	switch {
	case n < 20:
		encoded, _ := b.Message(i)
		encoded = r.damage(bytes.Clone(encoded))
		encoded = encoded[:min(len(encoded), b.Room())]
		setSlot(rawSlot(b, i), encoded)
	case n < 23:
		rawSlot(b, i)[r.rng.IntN(wire.SlotBytes)] ^= byte(1 << r.rng.IntN(8))
	case n < 25:
		setLength(rawSlot(b, i), uint16(r.rng.IntN(b.Room()+2*wire.SlotBytes)))
	}
}

// damageBundle changes the datagram: its length, its header, or a bit anywhere.
func (r *round) damageBundle(b []byte) []byte {
	switch r.rng.IntN(4) {
	case 0:
		return b[:r.rng.IntN(len(b)+1)]
	case 1:
		return append(b, r.garbage(r.rng.IntN(max(1, maxGarbage-len(b))))...)
	case 2:
		b[r.rng.IntN(wire.BundleBytes)] ^= byte(1 << r.rng.IntN(8))
	case 3:
		b[r.rng.IntN(len(b))] ^= byte(1 << r.rng.IntN(8))
	}
	return b
}
