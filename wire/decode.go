package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxMessageBytes is the length of the longest message: an UPDATE with the longest value.
const MaxMessageBytes = ChainBytes + MaxValueBytes

// MaxDatagramBytes is the length of the longest message with a trailer.
const MaxDatagramBytes = MaxMessageBytes + TrailerBytes

// Accepted is the result of [Decode] for a message that a node may act on. It is no [Outcome] of its own: the node
// counts the outcome of the message.
const Accepted Outcome = 0xff

// Readable reports whether a node would look at a message's op: whether rules A1 to A5 let it.
func Readable(b []byte) bool {
	var m Message
	switch Decode(b, &m) {
	case OutcomeTruncated, OutcomeBadMagic, OutcomeBadVersion, OutcomeTooLarge, OutcomeBadChecksum:
		return false
	}
	return true
}

// Decode reads the message that a node received. It returns [Accepted]; or [OutcomeBadRequest], with every field of the
// base header set, for a message that deserves an answer; or the outcome under which the message is dropped.
// m.Value aliases b.
//
// The checks run in the order of rules A1 to A8 of spec/protocol.md; the XDP program keeps the same order.
func Decode(b []byte, m *Message) Outcome {
	*m = Message{}
	switch {
	case len(b) < BaseBytes:
		return OutcomeTruncated
	case binary.BigEndian.Uint16(b[offBaseMagic:]) != Magic:
		return OutcomeBadMagic
	case b[offBaseVersion] != WireVersion:
		return OutcomeBadVersion
	case len(b) > MaxMessageBytes:
		return OutcomeTooLarge
	case !checksumOK(b):
		return OutcomeBadChecksum
	case b[offBaseHops] >= MaxHops:
		decodeFields(b, m)
		return OutcomeHopLimit
	}
	decodeFields(b, m)
	switch m.Op {
	case OpRead:
		return decodeRead(b, m)
	case OpPut, OpDelete, OpCAS, OpAdd:
		return decodeWrite(b, m)
	case OpForward, OpUpdate, OpRelay:
		return decodePassed(b, m)
	case OpAck, OpProbe:
		return decodeVersion(b, m)
	case OpReply:
		return OutcomeMalformed
	}
	return OutcomeBadRequest
}

func decodeRead(b []byte, m *Message) Outcome {
	known := m.Flags == 0 || m.Flags == FlagAny || m.Flags == FlagBounded
	if len(b) != BaseBytes || !known || (m.Detail != 0 && m.Flags != FlagBounded) {
		return OutcomeBadRequest
	}
	return Accepted
}

func decodeWrite(b []byte, m *Message) Outcome {
	if len(b) < ChainBytes || m.Flags != 0 || m.Detail != 0 {
		return OutcomeBadRequest
	}
	decodeChain(b, m)
	fixed := m.Op == OpDelete || m.Op == OpAdd
	operand := m.Op == OpCAS || m.Op == OpAdd
	switch {
	case fixed && len(m.Value) != 0,
		!operand && m.Operand != 0,
		m.Session == 0 || m.Seq == 0,
		!allZero(b[offChainVersion:ChainBytes]):
		return OutcomeBadRequest
	}
	return Accepted
}

// decodePassed reads a FORWARD, an UPDATE or a RELAY: a client's message with the client's address in it.
func decodePassed(b []byte, m *Message) Outcome {
	if len(b) < ChainBytes || m.Flags != 0 || m.Detail != 0 {
		return OutcomeMalformed
	}
	decodeChain(b, m)
	mapped := binary.BigEndian.Uint64(b[offChainClientHi:]) == 0 && binary.BigEndian.Uint32(b[offChainClientLo:]) == 0xffff
	if !mapped || m.Client.Port() == 0 || !allZero(b[offChainReserved8:ChainBytes]) {
		return OutcomeMalformed
	}
	if m.Op == OpForward && m.ClientOp == OpRead {
		if len(m.Value) != 0 || m.Session|m.Seq|m.Operand|m.Version != 0 {
			return OutcomeMalformed
		}
		return Accepted
	}
	if !m.ClientOp.IsWrite() || m.Session == 0 || m.Seq == 0 || (m.Version == 0) != (m.Op == OpForward) {
		return OutcomeMalformed
	}
	if want, fixed := passedValueBytes(m); fixed && len(m.Value) != want {
		return OutcomeMalformed
	}
	return Accepted
}

// passedValueBytes gives the length of the value of a FORWARD, UPDATE or RELAY if its ops fix it: an ADD travels to the
// head as its delta, and down and up the chain as its 8-byte result; other values do not travel up.
func passedValueBytes(m *Message) (want int, fixed bool) {
	switch {
	case m.ClientOp == OpDelete, m.ClientOp == OpAdd && m.Op == OpForward:
		return 0, true
	case m.ClientOp == OpAdd:
		return 8, true
	case m.Op == OpRelay:
		return 0, true
	}
	return 0, false
}

func decodeVersion(b []byte, m *Message) Outcome {
	if len(b) != VersionBytes || m.Flags != 0 || m.Detail != 0 {
		return OutcomeMalformed
	}
	m.Version = binary.BigEndian.Uint64(b[offVersionVersion:])
	return Accepted
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// ErrNotReply is wrapped by every error of [DecodeReply].
var ErrNotReply = errors.New("wire: not a reply")

// DecodeReply reads the REPLY that a client received; m.Value aliases b.
func DecodeReply(b []byte, m *Message) error {
	*m = Message{}
	switch {
	case len(b) < VersionBytes:
		return fmt.Errorf("%w: %d bytes", ErrNotReply, len(b))
	case binary.BigEndian.Uint16(b[offBaseMagic:]) != Magic || b[offBaseVersion] != WireVersion:
		return fmt.Errorf("%w: other magic or version", ErrNotReply)
	case Op(b[offBaseOp]) != OpReply:
		return fmt.Errorf("%w: op is %v", ErrNotReply, Op(b[offBaseOp]))
	case !checksumOK(b):
		return fmt.Errorf("%w: bad checksum", ErrNotReply)
	}
	decodeFields(b, m)
	m.Version = binary.BigEndian.Uint64(b[offVersionVersion:])
	m.Value = b[VersionBytes:]
	return nil
}

// Peek reads an encoded message of any op without judging it, for tools that show packets. It returns false if b
// is shorter than the headers of its op.
func Peek(b []byte, m *Message) bool {
	*m = Message{}
	if len(b) < BaseBytes || len(b) < headerBytes(Op(b[offBaseOp])) {
		return false
	}
	decodeFields(b, m)
	switch headerBytes(m.Op) {
	case VersionBytes:
		m.Version = binary.BigEndian.Uint64(b[offVersionVersion:])
		m.Value = b[VersionBytes:]
	case ChainBytes:
		decodeChain(b, m)
	}
	return true
}
