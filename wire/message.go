package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Message is one decoded message. Fields that its op's headers do not have are zero and are not encoded.
type Message struct {
	Op      Op
	Flags   Flag
	Hops    uint8
	Shard   uint16
	Epoch   uint32
	Detail  uint16 // REPLY: a Status; READ with FlagBounded: the bound in milliseconds
	Request uint64
	Key     Key

	Version uint64 // REPLY, ACK, PROBE, UPDATE, RELAY

	Session  uint64
	Seq      uint64
	Operand  uint64         // CAS: expected version; ADD: delta
	Client   netip.AddrPort // FORWARD, UPDATE, RELAY: the client
	ClientOp Op             // FORWARD, UPDATE, RELAY: the client's operation

	Value []byte
}

// Status is the result a REPLY carries.
func (m *Message) Status() Status { return Status(m.Detail) }

// headerBytes is the length of a message with this op and no value.
func headerBytes(op Op) int {
	switch op {
	case OpRead:
		return BaseBytes
	case OpReply, OpAck, OpProbe:
		return VersionBytes
	}
	return ChainBytes
}

// IsWrite reports whether the op changes an object.
func (v Op) IsWrite() bool { return v == OpPut || v == OpDelete || v == OpCAS || v == OpAdd }

// IsChain reports whether only members of a chain send the op to each other.
func (v Op) IsChain() bool {
	switch v {
	case OpForward, OpUpdate, OpAck, OpProbe, OpRelay:
		return true
	}
	return false
}

// Append encodes m with its checksum behind b. m.Value may alias the room behind b. A value longer than [MaxValueBytes]
// is the caller's error and panics.
func (m *Message) Append(b []byte) []byte {
	if len(m.Value) > MaxValueBytes {
		panic("wire: value longer than MaxValueBytes")
	}
	start, header := len(b), headerBytes(m.Op)
	b = slices.Grow(b, header+len(m.Value))[:start+header+len(m.Value)]
	p := b[start:]
	copy(p[header:], m.Value) // first, because the header may overwrite it
	clear(p[:header])
	binary.BigEndian.PutUint16(p[offBaseMagic:], Magic)
	p[offBaseVersion] = WireVersion
	p[offBaseOp] = byte(m.Op)
	p[offBaseFlags] = byte(m.Flags)
	p[offBaseHops] = m.Hops
	binary.BigEndian.PutUint16(p[offBaseShard:], m.Shard)
	binary.BigEndian.PutUint32(p[offBaseEpoch:], m.Epoch)
	binary.BigEndian.PutUint16(p[offBaseDetail:], m.Detail)
	binary.BigEndian.PutUint64(p[offBaseRequest:], m.Request)
	binary.BigEndian.PutUint64(p[offBaseKeyHi:], m.Key.Hi)
	binary.BigEndian.PutUint64(p[offBaseKeyLo:], m.Key.Lo)
	switch header {
	case VersionBytes:
		binary.BigEndian.PutUint64(p[offVersionVersion:], m.Version)
	case ChainBytes:
		m.putChain(p)
	}
	Seal(p)
	return b
}

func (m *Message) putChain(p []byte) {
	binary.BigEndian.PutUint64(p[offChainSession:], m.Session)
	binary.BigEndian.PutUint64(p[offChainSeq:], m.Seq)
	binary.BigEndian.PutUint64(p[offChainOperand:], m.Operand)
	binary.BigEndian.PutUint64(p[offChainVersion:], m.Version)
	if m.Client.IsValid() {
		addr := m.Client.Addr().As16()
		copy(p[offChainClientHi:], addr[:])
		binary.BigEndian.PutUint16(p[offChainClientPort:], m.Client.Port())
	}
	p[offChainClientOp] = byte(m.ClientOp)
}

// decodeFields reads every field that the op's headers have; the length has been checked.
func decodeFields(p []byte, m *Message) {
	m.Op = Op(p[offBaseOp])
	m.Flags = Flag(p[offBaseFlags])
	m.Hops = p[offBaseHops]
	m.Shard = binary.BigEndian.Uint16(p[offBaseShard:])
	m.Epoch = binary.BigEndian.Uint32(p[offBaseEpoch:])
	m.Detail = binary.BigEndian.Uint16(p[offBaseDetail:])
	m.Request = binary.BigEndian.Uint64(p[offBaseRequest:])
	m.Key = Key{binary.BigEndian.Uint64(p[offBaseKeyHi:]), binary.BigEndian.Uint64(p[offBaseKeyLo:])}
}

func decodeChain(p []byte, m *Message) {
	m.Session = binary.BigEndian.Uint64(p[offChainSession:])
	m.Seq = binary.BigEndian.Uint64(p[offChainSeq:])
	m.Operand = binary.BigEndian.Uint64(p[offChainOperand:])
	m.Version = binary.BigEndian.Uint64(p[offChainVersion:])
	if addr := netip.AddrFrom16([16]byte(p[offChainClientHi:])).Unmap(); addr != netip.IPv6Unspecified() {
		m.Client = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(p[offChainClientPort:]))
	}
	m.ClientOp = Op(p[offChainClientOp])
	m.Value = p[ChainBytes:]
}
