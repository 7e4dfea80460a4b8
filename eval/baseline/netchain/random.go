package netchain

import (
	"math/rand/v2"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Random returns random nodes and packets for [baseline.Compare]. Hosts are 10.88.0.1 and
// following, including the node. Keys, numbers and addresses are few, so that packets meet the
// state that earlier ones left.
func Random(wide bool) baseline.Draw[State] {
	return baseline.Draw[State]{
		State:  func(rng *rand.Rand) State { return randomState(rng, wide) },
		Packet: randomPacket,
	}
}

// RandomWidths is Random with nodes of both widths.
func RandomWidths() baseline.Draw[State] {
	return baseline.Draw[State]{
		State:  func(rng *rand.Rand) State { return randomState(rng, rng.IntN(2) == 0) },
		Packet: randomPacket,
	}
}

const (
	randomHosts = 6
	randomKeys  = 5
	clientPort  = 50000
)

func randomHost(rng *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 88, 0, byte(1 + rng.IntN(randomHosts))})
}

func randomKey(rng *rand.Rand) Key { return Key{KeyBytes - 1: byte(rng.IntN(randomKeys))} }

// randomSeq is mostly near the ends of the range, where it wraps.
func randomSeq(rng *rand.Rand, wide bool) uint32 {
	seq := uint32(rng.IntN(6)) - 3
	if rng.IntN(4) == 0 {
		seq = rng.Uint32()
	}
	if !wide {
		seq &= 1<<16 - 1
	}
	return seq
}

func randomValue(rng *rand.Rand, most int) []byte {
	value := make([]byte, rng.IntN(most+1))
	if rng.IntN(2) == 0 { // something that CAS can work on
		value = make([]byte, CompareBytes)
	}
	for i := range value {
		value[i] = byte(rng.IntN(2))
	}
	if len(value) == CompareBytes {
		clear(value[1:])
	}
	return value
}

func randomState(rng *rand.Rand, wide bool) State {
	s := State{
		Config: Config{
			Self:       randomHost(rng),
			Wide:       wide,
			Slots:      4,
			ValueBytes: CompareBytes + rng.IntN(80),
			Groups:     1 + rng.IntN(3),
		},
		Index: make(map[Key]uint32), Rules: make(map[Target]Rule),
	}
	for range s.Slots {
		s.Cells = append(s.Cells, Cell{randomSeq(rng, wide), randomValue(rng, s.ValueBytes)})
	}
	for slot := range s.Slots {
		s.Index[randomKey(rng)] = uint32(slot)
	}
	for range rng.IntN(4) {
		rule := Rule{Action: Action(1 + rng.IntN(3))}
		if rule.Action == Replace {
			rule.By = randomHost(rng)
		}
		target := Target{randomHost(rng), uint16(rng.IntN(s.Groups))}
		if target.To != s.Self && rule.By != s.Self {
			s.Rules[target] = rule
		}
	}
	return s
}

func randomPacket(rng *rand.Rand, s *State) baseline.Packet {
	m := Message{Op: Op(1 + rng.IntN(3)), Wide: s.Wide, Key: randomKey(rng)}
	switch m.Op {
	case Write:
		m.Value = randomValue(rng, s.ValueBytes)
		m.Seq = randomSeq(rng, s.Wide)
		if rng.IntN(3) == 0 {
			m.Seq = 0
		}
	case CAS:
		m.Value = make([]byte, 2*CompareBytes)
		m.Value[0], m.Value[CompareBytes] = byte(rng.IntN(2)), byte(rng.IntN(2))
	}
	for range rng.IntN(4) {
		m.List = append(m.List, randomHost(rng))
	}
	p := baseline.Packet{From: netip.AddrPortFrom(randomHost(rng), clientPort), To: netip.AddrPortFrom(s.Self, Port)}
	if rng.IntN(4) == 0 {
		p.To = netip.AddrPortFrom(randomHost(rng), Port)
	}
	if rng.IntN(16) == 0 {
		m.Op, m.Wide = Op(1+rng.IntN(7)), rng.IntN(2) == 0
		m.Seq &= 1<<16 - 1
	}
	p.Payload = m.Append(nil)
	if rng.IntN(16) == 0 {
		p.Payload[rng.IntN(len(p.Payload))] ^= 1 << rng.IntN(8)
	}
	if rng.IntN(32) == 0 {
		p.Payload = p.Payload[:rng.IntN(len(p.Payload))]
	}
	if rng.IntN(32) == 0 {
		p.Payload = append(p.Payload, make([]byte, 1+rng.IntN(8))...)
	}
	return p
}
