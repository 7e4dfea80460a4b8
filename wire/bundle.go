package wire

import "encoding/binary"

// MinSlotBytes is the length of the shortest slot of a bundle: every message in it can become a REPLY without a value.
const MinSlotBytes = SlotBytes + VersionBytes

// slotUnit divides the length of every slot.
const slotUnit = 4

// Bundle is a datagram that carries several messages (B1 of spec/protocol.md): a header, then slots of equal length.
type Bundle []byte

// SlotFor returns the length of the slots that messages of up to so many bytes need.
func SlotFor(messageBytes int) int {
	n := max(SlotBytes+messageBytes, MinSlotBytes)
	return (n + slotUnit - 1) / slotUnit * slotUnit
}

// SlotsOf returns how many slots of that length one bundle has at most.
func SlotsOf(slotBytes int) int { return min(MaxSlots, (MaxMessageBytes-BundleBytes)/slotBytes) }

// RoomFor returns how long a message may become in the longest slots of which so many fit one bundle.
func RoomFor(slots int) int {
	return (MaxMessageBytes-BundleBytes)/slots/slotUnit*slotUnit - SlotBytes
}

// NewBundle makes a bundle of count empty slots over buffer, which grows if need be.
func NewBundle(buffer []byte, count, slotBytes int) Bundle {
	n := BundleBytes + count*slotBytes
	if cap(buffer) < n {
		buffer = make([]byte, n)
	}
	b := Bundle(buffer[:n])
	clear(b)
	binary.BigEndian.PutUint16(b[offBundleMagic:], Magic)
	b[offBundleVersion] = WireVersion
	b[offBundleOp] = byte(OpBundle)
	b[offBundleCount] = byte(count)
	binary.BigEndian.PutUint16(b[offBundleSlotBytes:], uint16(slotBytes))
	for i := range count {
		b.Clear(i)
	}
	return b
}

// IsBundle reports whether a datagram claims to be a bundle.
func IsBundle(datagram []byte) bool {
	return len(datagram) >= BaseBytes && binary.BigEndian.Uint16(datagram[offBundleMagic:]) == Magic &&
		datagram[offBundleVersion] == WireVersion && Op(datagram[offBundleOp]) == OpBundle
}

// Sound is B1: it reports whether the header of a bundle agrees with the datagram's length.
func (b Bundle) Sound() bool {
	slot := b.slotBytes()
	return b.Count() >= 1 && b.Count() <= MaxSlots && b[offBundleReserved] == 0 && slot >= MinSlotBytes &&
		slot%slotUnit == 0 && len(b) <= MaxMessageBytes && len(b) == BundleBytes+b.Count()*slot
}

// Count returns the number of slots.
func (b Bundle) Count() int { return int(b[offBundleCount]) }

// Room returns the length of the longest message that a slot holds.
func (b Bundle) Room() int { return b.slotBytes() - SlotBytes }

func (b Bundle) slotBytes() int { return int(binary.BigEndian.Uint16(b[offBundleSlotBytes:])) }

func (b Bundle) slot(i int) []byte {
	start := BundleBytes + i*b.slotBytes()
	return b[start : start+b.slotBytes()]
}

// Message returns the encoded message in a slot of a sound bundle, aliasing it, or nothing if it is empty. It returns
// false if the slot's own header is damaged (B2).
func (b Bundle) Message(i int) ([]byte, bool) {
	slot := b.slot(i)
	n := binary.BigEndian.Uint16(slot[offSlotLength:])
	if binary.BigEndian.Uint16(slot[offSlotCheck:]) != ^n || int(n) > b.Room() {
		return nil, false
	}
	return slot[SlotBytes : SlotBytes+int(n)], true
}

// Put encodes a message into a slot. It returns false, and leaves the slot as it is, if the slot has no room for it.
// m.Value may alias the slot.
func (b Bundle) Put(i int, m *Message) bool {
	if headerBytes(m.Op)+len(m.Value) > b.Room() {
		return false
	}
	b.setLength(i, len(m.Append(b.slot(i)[SlotBytes:SlotBytes]))) // in the slot: Append finds enough capacity
	return true
}

// Clear empties a slot; the bytes of the message that was there stay.
func (b Bundle) Clear(i int) { b.setLength(i, 0) }

func (b Bundle) setLength(i, n int) {
	slot := b.slot(i)
	binary.BigEndian.PutUint16(slot[offSlotLength:], uint16(n))
	binary.BigEndian.PutUint16(slot[offSlotCheck:], ^uint16(n))
}
