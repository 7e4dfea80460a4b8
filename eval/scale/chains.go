package scale

import (
	"math/rand/v2"
	"strconv"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// shard is a part of the keys, and where it is.
type shard struct {
	chain  []int     // switches, head first
	part   float64   // of all requests
	keys   []float64 // the parts of its keys; none where all keys are equal
	window []float64 // for each node, how long it holds a write that is not acknowledged, in seconds
	reads  []float64 // for each node, the part of the shard's reads that it is asked, adds up to 1
}

// tail is the last node.
func (s *shard) tail() int { return s.chain[len(s.chain)-1] }

// place assigns a chain to every shard. The papers' protocols use the ring's chain; ours also
// balances the load of the nodes.
func (f *Fabric) place(p Protocol) []shard {
	candidates := make([]topology.Candidate, f.holders())
	for i := range candidates {
		candidates[i] = topology.Candidate{ID: uint32(i + 1), Name: f.name(i)}
	}
	ring := topology.NewRing(candidates, "")
	ids := make([][]uint32, f.Shards)
	if p == Ours {
		wanted := make([]topology.Chain, f.Shards)
		for i := range wanted {
			wanted[i].Want = f.Chain
		}
		ids = ring.Plan(wanted).After
	} else {
		for i := range ids {
			ids[i] = ring.Place(uint16(i), f.Chain)
		}
	}
	shards := make([]shard, f.Shards)
	for i := range shards {
		for _, id := range ids[i] {
			shards[i].chain = append(shards[i].chain, int(id-1))
		}
	}
	return shards
}

// name is a switch's. Leaves come first.
func (f *Fabric) name(node int) string {
	if node < f.Leaves {
		return "leaf " + strconv.Itoa(node+1)
	}
	return "spine " + strconv.Itoa(node-f.Leaves+1)
}

// populate hashes keys to shards.
func (m *model) populate(seed uint64) {
	for i := range m.shards {
		m.shards[i].part, m.shards[i].keys = 0, m.shards[i].keys[:0]
	}
	random := hash(seed)
	for _, part := range m.parts {
		s := &m.shards[random.IntN(len(m.shards))]
		s.part += part
		if m.work.Zipf > 0 {
			s.keys = append(s.keys, part)
		}
	}
}

// hash gives the shards of keys, in the order of the keys.
func hash(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// hops is the number of links between two switches.
func (f *Fabric) hops(a, b int) int {
	switch {
	case a == b:
		return 0
	case (a < f.Leaves) != (b < f.Leaves):
		return 1
	}
	return 2
}

// setWindows says how long nodes hold writes: until the tail has it, and its ACK is back.
func (f *Fabric) setWindows(shards []shard, hopSeconds float64) {
	for i := range shards {
		s := &shards[i]
		s.window = make([]float64, len(s.chain))
		down := 0
		for k := len(s.chain) - 2; k >= 0; k-- {
			down += f.hops(s.chain[k], s.chain[k+1])
			s.window[k] = float64(down+f.hops(s.tail(), s.chain[k])) * hopSeconds
		}
	}
}
