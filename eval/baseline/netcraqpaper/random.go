package netcraqpaper

import (
	"math/rand/v2"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Random makes nodes and packets at random, for [baseline.Compare]. Hosts are 10.88.0.1 and
// following: a chain of two to six of which the node is one, and the others are clients.
func Random() baseline.Draw[State] {
	return baseline.Draw[State]{State: randomState, Packet: randomPacket}
}

const (
	randomHosts = 6
	clientPort  = 50000
)

func host(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, byte(1 + i)}) }

func randomState(rng *rand.Rand) State {
	nodes := 1 + rng.IntN(randomHosts)
	self := rng.IntN(nodes)
	c := Config{Self: host(self), Tail: host(nodes - 1), Keys: 3, Versions: uint32(2 + rng.IntN(3))}
	if self < nodes-1 {
		c.Next = host(self + 1)
	}
	for i := range nodes {
		if i != self {
			c.Group = append(c.Group, host(i))
		}
	}
	s := Empty(c)
	for i := range s.Objects {
		o := &s.Objects[i]
		o.WriteIndex = uint32(rng.IntN(int(c.Versions) + 1))
		if o.WriteIndex > 1 {
			o.ReadIndex = o.WriteIndex - 1
		}
		for j := range o.WriteIndex {
			o.Cells[j] = randomValue(rng)
		}
	}
	return s
}

func randomValue(rng *rand.Rand) (v Value) {
	for i := range v {
		v[i] = byte(rng.Uint32())
	}
	return v
}

func randomPacket(rng *rand.Rand, s *State) baseline.Packet {
	m := Message{Op: Op(rng.IntN(4)), Key: uint32(rng.IntN(int(s.Keys) + 1)), Value: randomValue(rng)}
	if rng.IntN(3) > 0 {
		m.Op = Write
	}
	if rng.IntN(16) == 0 {
		m.Key = rng.Uint32()
	}
	p := baseline.Packet{
		From: netip.AddrPortFrom(host(rng.IntN(randomHosts)), clientPort),
		To:   netip.AddrPortFrom(s.Self, Port),
	}
	if rng.IntN(8) == 0 {
		p.To = netip.AddrPortFrom(host(rng.IntN(randomHosts)), Port)
	}
	p.Payload = m.Append(nil)
	if rng.IntN(16) == 0 {
		p.Payload[MessageBytes-1] |= 1 << rng.IntN(opShift*3)
	}
	if rng.IntN(32) == 0 {
		p.Payload = p.Payload[:rng.IntN(len(p.Payload))]
	}
	if rng.IntN(32) == 0 {
		p.Payload = append(p.Payload, 0)
	}
	return p
}
