package chain

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/wire"
)

// digestFactor spreads the bits of a word; it is odd, so no two words become one.
const digestFactor = 0x9e3779b97f4a7c15

// Digest returns the digest of a PUT, DELETE or CAS. A session stores it to distinguish a retry from another write with the
// same number (W2). It is never zero, which stands for no digest. Writes that differ in one word of 8 bytes have different
// digests.
func Digest(operand uint64, value []byte) uint64 {
	h := mix(uint64(len(value)), operand)
	for len(value) > 0 {
		var word [8]byte
		value = value[copy(word[:], value):]
		h = mix(h, binary.LittleEndian.Uint64(word[:]))
	}
	return max(h, 1)
}

func mix(h, word uint64) uint64 {
	h = (h ^ word) * digestFactor
	return h ^ h>>32
}

// result returns the [Session.Result] of a write that got a version. value is the stored value. A write whose operand
// [Session.operandOf] could not find again has no digest: a member that learned of it by a resync would refuse its retry.
func (r *request) result(version uint64, value []byte) uint64 {
	operand := r.message.Operand
	switch {
	case r.op == wire.OpAdd:
		return binary.BigEndian.Uint64(value)
	case r.node.options.NoDigest || operand != 0 && operand != version-1:
		return 0
	}
	return Digest(operand, value)
}

// isRetry reports whether the write is the one that the session recorded. An ADD is known by its key alone: its result
// says nothing of the delta.
func (r *request) isRetry(last Session) bool {
	if last.KeyLo != r.message.Key.Lo || last.Op != r.op {
		return false
	}
	if r.op == wire.OpAdd || last.Result == 0 || r.node.options.NoDigest {
		return true
	}
	return last.Result == Digest(r.message.Operand, r.message.Value)
}

// operandOf returns an operand with which the write that gave an object its version is recorded as s records it. Without
// a digest that is the version itself, which no write expects.
func (s Session) operandOf(value []byte) uint64 {
	switch before := s.Version - 1; {
	case s.Op == wire.OpAdd:
		return 0
	case s.Result == 0:
		return s.Version
	case s.Result == Digest(before, value):
		return before
	}
	return 0
}
