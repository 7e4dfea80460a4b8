package netchain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// Port is the UDP port of the nodes.
const Port = 8888

// Sizes and limits of messages, in bytes unless said.
const (
	KeyBytes      = 16
	AddressBytes  = 4
	CompareBytes  = 16 // CAS compares and stores values of this length
	HeaderBytes   = 8  // bytes before the key
	MaxList       = wire.MaxChain - 1
	MaxValueBytes = wire.MaxValueBytes
	// MaxMessageBytes is the longest message: a full list behind the longest value.
	MaxMessageBytes = HeaderBytes + KeyBytes + MaxValueBytes + MaxList*AddressBytes
)

// wideOps is added to the number of an op where SEQ has 32 bits.
const wideOps = 16

// Op is the operation of a request or an answer.
type Op uint8

// Ops, as numbered where SEQ has 16 bits.
const (
	Read Op = iota + 1
	Write
	CAS
	ReadReply
	WriteReply
	CASFail
	NotFound
)

// String is the op's name.
func (o Op) String() string {
	names := [...]string{
		Read:       "read",
		Write:      "write",
		CAS:        "cas",
		ReadReply:  "read-reply",
		WriteReply: "write-reply",
		CASFail:    "cas-fail",
		NotFound:   "not-found",
	}
	if o < Read || int(o) >= len(names) {
		return fmt.Sprintf("op %d", uint8(o))
	}
	return names[o]
}

// request reports whether a client may ask it.
func (o Op) request() bool { return o >= Read && o <= CAS }

// Key names an object.
type Key [KeyBytes]byte

// Group returns the virtual group of the key among groups.
func (k Key) Group(groups int) uint16 {
	return uint16(int(binary.BigEndian.Uint16(k[KeyBytes-2:])) % groups)
}

// Message is the content of a UDP datagram.
type Message struct {
	Op    Op
	Wide  bool // SEQ has 32 bits, not 16
	Seq   uint32
	Key   Key
	Value []byte
	List  []netip.Addr // the nodes after the one the packet is addressed to, next first: SC is their number
}

// ErrMalformed says that a datagram is no message.
var ErrMalformed = errors.New("not a NetChain message")

// Append encodes the message.
func (m *Message) Append(b []byte) []byte {
	if m.Wide {
		b = append(b, byte(m.Op)+wideOps, byte(len(m.List)))
		b = binary.BigEndian.AppendUint16(b, uint16(len(m.Value)))
		b = binary.BigEndian.AppendUint32(b, m.Seq)
	} else {
		b = append(b, byte(m.Op), byte(len(m.List)))
		b = binary.BigEndian.AppendUint16(b, uint16(m.Seq))
		b = binary.BigEndian.AppendUint16(b, uint16(len(m.Value)))
		b = append(b, 0, 0)
	}
	b = append(b, m.Key[:]...)
	b = append(b, m.Value...)
	for _, a := range m.List {
		four := a.As4()
		b = append(b, four[:]...)
	}
	return b
}

// Decode reads a datagram. Value aliases it.
func Decode(b []byte) (Message, error) {
	var m Message
	if len(b) < HeaderBytes+KeyBytes {
		return m, ErrMalformed
	}
	length, reserved := int(binary.BigEndian.Uint16(b[4:])), binary.BigEndian.Uint16(b[6:])
	m.Op, m.Seq = Op(b[0]), uint32(binary.BigEndian.Uint16(b[2:]))
	if b[0] > wideOps {
		m.Op, m.Wide, m.Seq = Op(b[0]-wideOps), true, binary.BigEndian.Uint32(b[4:])
		length, reserved = int(binary.BigEndian.Uint16(b[2:])), 0
	}
	count := int(b[1])
	bad := m.Op < Read || m.Op > NotFound || reserved != 0 || count > MaxList || length > MaxValueBytes
	if bad || len(b) != HeaderBytes+KeyBytes+length+count*AddressBytes {
		return m, ErrMalformed
	}
	b = b[HeaderBytes:]
	m.Key, m.Value = Key(b), b[KeyBytes:KeyBytes+length]
	for b = b[KeyBytes+length:]; len(b) > 0; b = b[AddressBytes:] {
		m.List = append(m.List, netip.AddrFrom4([AddressBytes]byte(b)))
	}
	return m, nil
}
