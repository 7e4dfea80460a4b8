package wire

import "encoding/binary"

// Heartbeat is a message between a controller and the data plane of a node (H1 to H4 of spec/protocol.md).
type Heartbeat struct {
	Answer      bool
	Granter     uint8 // the controller's place among all of them
	Majority    uint8 // how many controllers a lease needs
	Node        uint32
	SetID       uint32 // of the set of controllers
	Incarnation uint64
	Request     uint64 // [HeartbeatTime]
	Stamp       uint64 // a time on the node's clock; in an answer: now
	Lease       uint64 // how long after Stamp the grant ends, in ns; in an answer: when the node's lease ends
}

// HeartbeatTime is the request of a heartbeat that is sent at a time on a controller's clock, in ns (H4). Another process
// may have another clock.
func HeartbeatTime(process uint8, now uint64) uint64 { return uint64(process)<<56 | now&(1<<56-1) }

// IsHeartbeat reports whether a datagram claims to be a heartbeat.
func IsHeartbeat(datagram []byte) bool {
	return len(datagram) >= BaseBytes && binary.BigEndian.Uint16(datagram[offHeartbeatMagic:]) == Magic &&
		datagram[offHeartbeatVersion] == WireVersion && Op(datagram[offHeartbeatOp]) == OpHeartbeat
}

// HeartbeatNode is the node that a whole heartbeat names, whose key has to be known to read it.
func HeartbeatNode(d []byte) uint32 { return binary.BigEndian.Uint32(d[offHeartbeatNode:]) }

// Append appends the datagram, with its tag.
func (h *Heartbeat) Append(b []byte, s *Secret) []byte {
	start := len(b)
	b = append(b, make([]byte, HeartbeatBytes)...)
	d := b[start:]
	binary.BigEndian.PutUint16(d[offHeartbeatMagic:], Magic)
	d[offHeartbeatVersion], d[offHeartbeatOp] = WireVersion, byte(OpHeartbeat)
	if h.Answer {
		d[offHeartbeatKind] = 1
	}
	d[offHeartbeatGranter], d[offHeartbeatMajority] = h.Granter, h.Majority
	binary.BigEndian.PutUint32(d[offHeartbeatNode:], h.Node)
	binary.BigEndian.PutUint32(d[offHeartbeatGeneration:], h.SetID)
	binary.BigEndian.PutUint64(d[offHeartbeatIncarnation:], h.Incarnation)
	binary.BigEndian.PutUint64(d[offHeartbeatRequest:], h.Request)
	binary.BigEndian.PutUint64(d[offHeartbeatStamp:], h.Stamp)
	binary.BigEndian.PutUint64(d[offHeartbeatLease:], h.Lease)
	binary.BigEndian.PutUint64(d[offHeartbeatTag:], siphash24(s, d[:offHeartbeatTag]))
	return b
}

// ReadHeartbeat decodes a datagram for which [IsHeartbeat] is true: the outcome is [Accepted], [OutcomeMalformed], or
// [OutcomeBadTag].
func ReadHeartbeat(d []byte, s *Secret, h *Heartbeat) Outcome {
	if len(d) != HeartbeatBytes || d[offHeartbeatKind] > 1 || d[offHeartbeatReserved] != 0 {
		return OutcomeMalformed
	}
	if s == nil || siphash24(s, d[:offHeartbeatTag]) != binary.BigEndian.Uint64(d[offHeartbeatTag:]) {
		return OutcomeBadTag
	}
	*h = Heartbeat{
		Answer: d[offHeartbeatKind] == 1, Granter: d[offHeartbeatGranter], Majority: d[offHeartbeatMajority],
		Node: binary.BigEndian.Uint32(d[offHeartbeatNode:]), SetID: binary.BigEndian.Uint32(d[offHeartbeatGeneration:]),
		Incarnation: binary.BigEndian.Uint64(d[offHeartbeatIncarnation:]),
		Request:     binary.BigEndian.Uint64(d[offHeartbeatRequest:]),
		Stamp:       binary.BigEndian.Uint64(d[offHeartbeatStamp:]), Lease: binary.BigEndian.Uint64(d[offHeartbeatLease:]),
	}
	return Accepted
}
