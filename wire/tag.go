package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/dchest/siphash"
)

// Secret is one key of SipHash-2-4.
type Secret [16]byte

// SecretOf makes a key of its 16 bytes; nil if they are not as many: the holder does not have it.
func SecretOf(b []byte) *Secret {
	if len(b) != len(Secret{}) {
		return nil
	}
	s := Secret(b)
	return &s
}

// Bytes returns the input of [SecretOf].
func (s *Secret) Bytes() []byte {
	if s == nil {
		return nil
	}
	return s[:]
}

// Keys are the secrets of one generation. A party has only the keys of its permissions: a reader has Read alone, a
// writer has Read and Write, nodes have all. A nil one is one that its holder does not have.
type Keys struct {
	Generation uint32
	Read       *Secret // of READ and REPLY
	Write      *Secret // of a client's writes
	Chain      *Secret // of messages between nodes
}

// KeyGenerations is how many generations a node can hold at the same time; they follow each other.
const KeyGenerations = 4

// Keyring is the set of keys of a party to a cluster with tags (T1 to T5 of spec/protocol.md). It does not change:
// new keys come with a new one.
type Keyring struct {
	Sign uint32 // generation to tag with
	Keys []Keys // generations that are accepted, at most [KeyGenerations]
}

// ErrNoKey says that the holder of a keyring may not send such a message.
var ErrNoKey = errors.New("no key for this: the identity may not do it")

// of is the key for messages with this op (T2).
func (k *Keys) of(op Op) *Secret {
	switch {
	case op == OpRead || op == OpReply:
		return k.Read
	case op < OpForward:
		return k.Write
	}
	return k.Chain
}

// May reports whether the holder can send messages with this op.
func (k *Keyring) May(op Op) bool {
	if k == nil {
		return true
	}
	keys := k.find(k.Sign)
	return keys != nil && keys.of(op) != nil
}

func (k *Keyring) find(generation uint32) *Keys {
	for i := range k.Keys {
		if k.Keys[i].Generation == generation {
			return &k.Keys[i]
		}
	}
	return nil
}

// Tagged reports whether a datagram has the mark of a message that a trailer follows.
func Tagged(datagram []byte) bool {
	return len(datagram) >= BaseBytes && binary.BigEndian.Uint16(datagram[offBaseMagic:]) == Magic &&
		datagram[offBaseVersion] == WireVersion|TaggedMark
}

// Untag splits a datagram with the mark, which it takes out. A datagram too short for message and trailer has neither.
func Untag(datagram []byte) (message, trailer []byte) {
	if len(datagram) < BaseBytes+TrailerBytes {
		return nil, nil
	}
	datagram[offBaseVersion] &^= TaggedMark
	n := len(datagram) - TrailerBytes
	return datagram[:n], datagram[n:]
}

// Ends are the sender and the receiver of a message, which its tag covers (T5). A client's end is ignored: it may be
// the zero value.
type Ends struct{ From, To netip.AddrPort }

// endBytes is the length of one end as the tag covers it: IPv4 address, port, two zero bytes.
const endBytes = 8

// append puts both ends of a message with this op behind b, zeros for a client's.
func (e Ends) append(b []byte, op Op) []byte {
	if op < OpForward {
		e.From = netip.AddrPort{}
	}
	if op == OpReply {
		e.To = netip.AddrPort{}
	}
	for _, end := range []netip.AddrPort{e.From, e.To} {
		var p [endBytes]byte
		if addr := end.Addr().Unmap(); addr.Is4() {
			ip := addr.As4()
			copy(p[:], ip[:])
			binary.BigEndian.PutUint16(p[len(ip):], end.Port())
		}
		b = append(b, p[:]...)
	}
	return b
}

func siphash24(s *Secret, b []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), b)
}

// sum is the tag of a whole message.
func sum(s *Secret, e Ends, message []byte) uint64 {
	covered := e.append(make([]byte, 0, 2*endBytes+MaxMessageBytes), Op(message[offBaseOp]))
	return siphash24(s, append(covered, message...))
}

// Append puts the trailer behind an encoded message between these ends, and the mark into it. A nil keyring is that of a
// party that sends without tags, and puts none.
func (k *Keyring) Append(message []byte, e Ends) ([]byte, error) {
	if k == nil {
		return message, nil
	}
	keys := k.find(k.Sign)
	if keys == nil {
		return nil, ErrNoKey
	}
	secret := keys.of(Op(message[offBaseOp]))
	if secret == nil {
		return nil, ErrNoKey
	}
	tag := sum(secret, e, message)
	message[offBaseVersion] |= TaggedMark
	message = binary.BigEndian.AppendUint64(message, tag)
	message = binary.BigEndian.AppendUint32(message, keys.Generation)
	message = binary.BigEndian.AppendUint16(message, TrailerVersion)
	return binary.BigEndian.AppendUint16(message, 0), nil
}

// Open returns the message of a datagram between these ends and whether its tag is right; it takes the mark out. A
// datagram too short for message and trailer has no message. One without the mark is a message without a tag.
func (k *Keyring) Open(datagram []byte, e Ends) (message []byte, ok bool) {
	if k == nil || !Tagged(datagram) {
		return datagram, k == nil
	}
	message, trailer := Untag(datagram)
	if message == nil {
		return nil, false
	}
	keys := k.find(binary.BigEndian.Uint32(trailer[offTrailerGeneration:]))
	if keys == nil || binary.BigEndian.Uint16(trailer[offTrailerVersion:]) != TrailerVersion ||
		binary.BigEndian.Uint16(trailer[offTrailerReserved:]) != 0 {
		return message, false
	}
	secret := keys.of(Op(message[offBaseOp]))
	return message, secret != nil && sum(secret, e, message) == binary.BigEndian.Uint64(trailer[offTrailerTag:])
}
