package conformance

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Parts of a round.
const (
	roundKeys     = 6
	roundSessions = 5
	roundClients  = 4
	otherNodes    = 9 // besides the node under test
	// Options change rarely, because a target may have to be loaded anew for them.
	packetsPerOptions = 100_000
)

// round makes random packets for one node in one random initial state.
type round struct {
	seed    uint64
	first   int // number of its first packet
	rng     *rand.Rand
	options chain.Options
	state   State
	keys    []wire.Key
	// Likely values after the packets so far: versions of keys and seqs of sessions.
	versions map[wire.Key]uint64
	seqs     map[uint64]uint64
	writes   map[uint64]wire.Message // the newest of each session
	past     []past
	floors   bool // shards have floors and bars
}

func newRound(seed uint64, first int, within func(chain.Options) chain.Options) *round {
	r := &round{
		seed: seed, first: first, rng: rand.New(rand.NewPCG(seed, uint64(first))),
		versions: make(map[wire.Key]uint64), seqs: make(map[uint64]uint64), writes: make(map[uint64]wire.Message),
	}
	r.options = randomOptions(rand.New(rand.NewPCG(seed, uint64(first/packetsPerOptions)<<32|1)))
	if within != nil {
		r.options = within(r.options)
	}
	for i := range roundKeys {
		r.keys = append(r.keys, wire.Key{Hi: r.rng.Uint64(), Lo: r.rng.Uint64()&^0xff | uint64(i)})
	}
	r.floors = r.chance(40)
	h := testHeart()
	r.state = State{
		Heart:  &h,
		Shards: make(map[uint16]Shard), Objects: make(objects), Sessions: make(map[chain.SessionKey]chain.Session),
	}
	for number := range r.options.Shards {
		r.state.Shards[uint16(number)] = r.shard()
	}
	for _, key := range r.keys[:r.rng.IntN(min(roundKeys, r.options.MaxObjects)+1)] {
		r.state.Objects[key] = r.object(key)
	}
	return r
}

func randomOptions(rng *rand.Rand) chain.Options {
	o := chain.Options{
		Shards:      pick(rng, 1, 2, 4),
		CellBytes:   pick(rng, 8, 16, 64, 100, wire.MaxValueBytes),
		MaxObjects:  pick(rng, 4, 64),
		MaxSessions: pick(rng, 6, 64),
		Relay:       rng.IntN(4) == 0,
	}
	if rng.IntN(4) == 0 {
		o.Without = pick(rng, chain.W2, chain.W5, chain.W8, chain.R4, chain.G1, chain.G3, chain.W14)
	}
	if rng.IntN(3) == 0 {
		o.ClientSessions = pick(rng, 1, 2, 5)
	}
	if rng.IntN(4) == 0 {
		o.AnswerRate = pick(rng, 1, 20_000) // for one long answer, or a few
	}
	return o
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// chance is true in n of 100 cases.
func (r *round) chance(n int) bool { return r.rng.IntN(100) < n }

func (r *round) shard() Shard {
	c := chain.ShardConfig{Epoch: 1 + r.rng.Uint32N(3), State: chain.Active}
	switch {
	case r.chance(8):
		c.State = chain.Frozen
	case r.chance(4):
		return Shard{Config: chain.ShardConfig{Epoch: c.Epoch}}
	}
	length := 1 + r.rng.IntN(4)
	if r.chance(5) {
		length = wire.MaxChain
	}
	c.Self = r.rng.IntN(length)
	for i, n := range r.rng.Perm(otherNodes)[:length] {
		node := r.node(n)
		if i == c.Self {
			node = Me
		}
		c.Members = append(c.Members, node)
	}
	c.Learner = c.Self > 0 && c.Self < length-1 && r.chance(15)
	if r.floors {
		c.Floor = r.rng.Uint64N(6)
		c.Bar = r.rng.Uint64N(c.Floor + 1)
	}
	return Shard{c, pick(r.rng, dataplane.Forever, dataplane.Forever, dataplane.Forever, time.Hour, -time.Hour, 0)}
}

// node is the n-th of the other nodes, from 0.
func (r *round) node(n int) netip.AddrPort {
	if a := Node(n + 1); a != Me {
		return a
	}
	return Node(otherNodes + 1)
}

func (r *round) object(key wire.Key) chain.Object {
	o := chain.Object{Version: 1 + r.rng.Uint64N(4), Writes: r.rng.Uint64N(9), Reads: r.rng.Uint64N(9)}
	o.Committed = o.Version
	if r.chance(40) {
		o.Committed = r.rng.Uint64N(o.Version + 1)
	}
	if o.Clean() {
		o.Epoch = r.rng.Uint32N(3)
	}
	if o.Tombstone = r.chance(20); !o.Tombstone {
		o.Value = r.value(r.options.CellBytes)
	}
	r.versions[key] = o.Version
	return o
}

// value has a length of interest, of at most the given one.
func (r *round) value(most int) []byte {
	n := min(most, pick(r.rng, 0, 1, 7, 8, 8, 8, 9, 15, 16, 17, 63, 64, 65, most-1, most, r.rng.IntN(most+1)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return b
}

// learn looks at the messages that the reference sent, so that later packets fit the node's state.
func (r *round) learn(frames [][]byte) {
	for _, f := range frames {
		for _, m := range MessagesOf(f[min(len(f), frame.HeaderBytes):]) {
			r.versions[m.Key] = max(r.versions[m.Key], m.Version)
		}
	}
}

// heartbeatPercent is how many datagrams are heartbeats.
const heartbeatPercent = 4

// next is the next packet.
func (r *round) next() []byte {
	from, datagram, damage := r.datagram()
	p := frame.Packet{SourceMAC: MACOf(from.Addr()), DestMAC: MACOf(Me.Addr()), From: from, To: Me, Message: datagram}
	switch n := r.rng.IntN(100); {
	case n < 8:
		p.Message = damage(p.Message)
	case n < 11:
		p.Message = r.garbage(r.rng.IntN(maxGarbage))
	}
	f := frame.Append(nil, &p)
	if r.chance(5) {
		return r.damageFrame(f)
	}
	return f
}

// datagram is a message or a bundle, with its sender and its damage.
func (r *round) datagram() (from netip.AddrPort, b []byte, damage func([]byte) []byte) {
	if r.chance(bundlePercent) {
		from, b = r.bundle()
		return from, b, r.damageBundle
	}
	if r.chance(heartbeatPercent) {
		return r.client(), r.heartbeat(), r.damageBundle
	}
	from, m := r.message()
	return from, m.Append(nil), r.damage
}

// maxGarbage keeps frames within an Ethernet frame of 1,514 bytes.
const maxGarbage = 1514 - frame.HeaderBytes

func (r *round) garbage(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return b
}

// Where the IPv4 addresses stand in a frame.
const (
	offSourceIP      = offIP + 12
	offDestinationIP = offIP + 16
)

// offClientAddress is where the last 4 bytes of the client's address stand in a message. They stay as they are, because
// a target must be able to send there.
const offClientAddress = 84

// damage changes a message, mostly with a checksum that fits.
func (r *round) damage(b []byte) []byte {
	switch r.rng.IntN(4) {
	case 0:
		b = b[:r.rng.IntN(len(b)+1)]
	case 1:
		b = append(b, r.garbage(r.rng.IntN(max(1, maxGarbage-len(b))))...)
	default:
		for range 1 + r.rng.IntN(2) {
			at := r.rng.IntN(len(b))
			if r.chance(70) {
				at = r.rng.IntN(min(len(b), wire.ChainBytes))
			}
			if at < offClientAddress || at >= offClientAddress+4 {
				b[at] ^= byte(1 << r.rng.IntN(8))
			}
		}
	}
	if len(b) >= wire.BaseBytes && r.chance(80) {
		wire.Seal(b)
	}
	return b
}

// damageFrame changes the headers of a frame, but not the sender's address.
func (r *round) damageFrame(f []byte) []byte {
	switch r.rng.IntN(5) {
	case 0:
		return f[:frame.EthernetBytes+r.rng.IntN(len(f)-frame.EthernetBytes+1)]
	case 1:
		return append(f, r.garbage(r.rng.IntN(1+max(0, 1514-len(f))))...)
	case 2: // lengths
		at := pick(r.rng, offIP+2, offUDP+4)
		binary.BigEndian.PutUint16(f[at:], binary.BigEndian.Uint16(f[at:])+uint16(r.rng.IntN(9))-4)
	case 3: // the IPv4 checksum, or the bytes that it covers
		f[pick(r.rng, offIP, offIP+1, offIP+5, offIP+8, offIP+10, offIP+11)] ^= byte(1 << r.rng.IntN(8))
		return f
	default:
		at := r.rng.IntN(frame.HeaderBytes)
		if at < offSourceIP || at >= offDestinationIP {
			f[at] ^= byte(1 << r.rng.IntN(8))
		}
	}
	frame.SetIPChecksum(f)
	return f
}
