package xdp

import (
	"encoding/binary"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// The structs of bpf/node/state.h, bpf/node/route.h and bpf/node/clone.h, with their fields in the same order;
// TestLayout compares them with the BTF of the compiled program. Fields that stand in network order are byte arrays.

type nqLive struct {
	LeaseUntilNS uint64
	Epoch        [4]byte
	Slot         uint8
	Readable     uint8
	Tail         uint8
	Reserved     uint8
}

type nqMember struct {
	Addr     [4]byte
	Port     [2]byte
	Reserved uint16
}

type nqChainConfig struct {
	Epoch   uint32
	State   uint8
	Learner uint8
	Self    uint8
	Length  uint8
	Members [wire.MaxChain]nqMember

	Base     uint32
	Reserved uint32
	Floor    uint64
	Bar      uint64
}

// nqObject is the header of an object; the cell with its value follows.
type nqObject struct {
	Seq      uint32
	Shape    uint16
	ValueSum uint16
	Key      [16]byte
	Version  uint64
	Settled  uint64
	Reads    uint32
	Writes   uint32
}

// committed is the newest version that is known to be committed.
func (h *nqObject) committed() uint64 {
	if h.Shape&shapeClean != 0 {
		return h.Version
	}
	return h.Settled
}

// epoch is the one in which the object became clean; 0: it is dirty.
func (h *nqObject) epoch() uint32 {
	if h.Shape&shapeClean != 0 {
		return uint32(h.Settled)
	}
	return 0
}

// object is the object with this header, whose value stands in a cell.
func (h *nqObject) object(cell []byte) chain.Object {
	return chain.Object{
		Version: h.Version, Committed: h.committed(), Epoch: h.epoch(), Tombstone: h.Shape&shapeTombstone != 0,
		Reads: uint64(h.Reads), Writes: uint64(h.Writes), Value: append([]byte(nil), cell[:h.Shape&shapeLength]...),
	}
}

type nqSessionKey struct {
	Session  [8]byte
	Shard    uint32
	Reserved uint32
}

type nqSession struct {
	Lock    uint32
	Op      uint8
	Status  uint8
	Owner   uint16
	Seq     uint64
	Version uint64
	Result  uint64
	KeyLo   [8]byte
	Session [8]byte
}

type nqHolder struct {
	Entries        uint64
	RefusedUntilNS [wire.RefusedSlots]uint64
}

type nqBatch struct {
	Count    uint32
	Stride   uint32
	Reserved [2]uint32
}

// nqRecord is the header of an object in a batch; its value follows.
type nqRecord struct {
	Key        [16]byte
	Version    uint64
	Committed  uint64
	Reads      uint64
	Writes     uint64
	ValueSum   uint32
	ValueBytes uint16
	Tombstone  uint8
	State      uint8
	Epoch      uint32
	Reserved   uint32
}

type nqSessionRecord struct {
	Key   nqSessionKey
	Entry nqSession
}

type nqLoad struct {
	FastReads  uint64
	OtherReads uint64
	Writes     uint64
}

// nqPunt is the header of a message handed to the agent; the message follows.
type nqPunt struct {
	AtNS         uint64
	Addr         [4]byte
	Port         [2]byte
	MessageBytes uint16
}

type nqPort struct {
	Row      uint32
	MAC      [6]byte
	Reserved uint16
}

type nqPortCell struct {
	Ifindex uint32
	Port    nqPort
}

const (
	objectBytes = 48 // of nqObject
	lineBytes   = 64
)

// cellBytes is the room for a value in the objects table: at least o.CellBytes, and such that every cell begins on
// a cache line.
func cellBytes(o chain.Options) int {
	return (objectBytes+o.CellBytes+lineBytes-1)/lineBytes*lineBytes - objectBytes
}

func keyBytes(k wire.Key) [16]byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[0:], k.Hi)
	binary.BigEndian.PutUint64(b[8:], k.Lo)
	return b
}

func keyOf(b []byte) wire.Key {
	return wire.Key{Hi: binary.BigEndian.Uint64(b[0:]), Lo: binary.BigEndian.Uint64(b[8:])}
}

func be64(v uint64) (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], v)
	return b
}

func be16(v uint16) (b [2]byte) {
	binary.BigEndian.PutUint16(b[:], v)
	return b
}

func memberOf(a netip.AddrPort) nqMember {
	return nqMember{Addr: a.Addr().As4(), Port: be16(a.Port())}
}

func (m nqMember) addrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(m.Addr), binary.BigEndian.Uint16(m.Port[:]))
}

func chainConfigOf(c chain.ShardConfig) nqChainConfig {
	out := nqChainConfig{
		Epoch: c.Epoch, State: uint8(c.State), Self: uint8(c.Self), Length: uint8(len(c.Members)), Base: c.Base,
		Floor: c.Floor, Bar: c.Bar,
	}
	if c.Learner {
		out.Learner = 1
	}
	for i, m := range c.Members {
		out.Members[i] = memberOf(m)
	}
	return out
}

func (c *nqChainConfig) shardConfig() chain.ShardConfig {
	out := chain.ShardConfig{
		Epoch: c.Epoch, State: chain.State(c.State), Learner: c.Learner != 0, Self: int(c.Self), Base: c.Base,
		Floor: c.Floor, Bar: c.Bar,
	}
	for _, m := range c.Members[:c.Length] {
		out.Members = append(out.Members, m.addrPort())
	}
	return out
}

// liveState is the word of nqLive that one store puts in force.
func liveState(c chain.ShardConfig, slot uint8) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint32(b[0:], c.Epoch)
	b[4] = slot
	if c.Readable() {
		b[5] = 1
	}
	if c.State != chain.None && c.Tail() {
		b[6] = 1
	}
	return binary.NativeEndian.Uint64(b[:])
}

func (l nqSession) session() chain.Session {
	return chain.Session{
		Seq: l.Seq, Version: l.Version, Result: l.Result, KeyLo: binary.BigEndian.Uint64(l.KeyLo[:]),
		Op: wire.Op(l.Op), Status: wire.Status(l.Status),
	}
}

func sessionOf(k chain.SessionKey, s chain.Session) nqSession {
	return nqSession{
		Op: uint8(s.Op), Status: uint8(s.Status), Seq: s.Seq, Version: s.Version, Result: s.Result,
		KeyLo: be64(s.KeyLo), Session: be64(k.Session),
	}
}

func sessionKeyOf(k chain.SessionKey) nqSessionKey {
	return nqSessionKey{Session: be64(k.Session), Shard: uint32(k.Shard)}
}

func (k nqSessionKey) sessionKey() chain.SessionKey {
	return chain.SessionKey{Session: binary.BigEndian.Uint64(k.Session[:]), Shard: uint16(k.Shard)}
}

// valueSum is the sum as the program keeps it: of words as they stand in memory, in the CPU's byte order.
func valueSum(value []byte) uint32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], wire.Fold(wire.Sum(value)))
	return uint32(binary.NativeEndian.Uint16(b[:]))
}
