package topology

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
)

// Candidate is a node that chains may be made of.
type Candidate struct {
	ID       uint32            // not 0
	Name     string            // decides where the node stands on the ring, so that it can be known before there is an ID; empty: the ID does
	Labels   map[string]string // such as zone, rack
	Capacity uint32            // share of the shards, relative to the others'; 0 counts as 1
}

// pointsPerNode is the minimum number of virtual nodes of a node of average capacity. The shares on the ring differ by about
// 1/sqrt(pointsPerNode), 9 %, and [Ring.Plan] evens them out. More points take longer to sort and gain little.
const pointsPerNode = 128

// Ring is a consistent hash of shards to nodes. It depends only on the set of candidates. Adding or removing a candidate
// moves only the shards that it gains or loses. A ring is immutable.
type Ring struct {
	nodes   []Candidate // by ID
	domain  []int       // of each node: its failure domain
	domains int
	points  []point
}

// point is one virtual node.
type point struct {
	at   uint64
	node int32 // index in Ring.nodes
}

// NewRing puts candidates on a ring. Nodes whose label spread has the same value (or is missing) fail together; where spread is empty, or
// no node has that label, each fails alone.
func NewRing(candidates []Candidate, spread string) *Ring {
	r := &Ring{nodes: slices.Clone(candidates)}
	slices.SortFunc(r.nodes, func(a, b Candidate) int { return cmp.Compare(a.ID, b.ID) })
	r.domain = make([]int, len(r.nodes))
	known := make(map[string]int)
	labelled := slices.ContainsFunc(r.nodes, func(n Candidate) bool { return spread != "" && n.Labels[spread] != "" })
	var capacity uint64
	for i := range r.nodes {
		n := &r.nodes[i]
		n.Capacity = max(n.Capacity, 1)
		capacity += uint64(n.Capacity)
		d, ok := known[n.Labels[spread]]
		if !ok || !labelled {
			d = r.domains
			known[n.Labels[spread]] = d
			r.domains++
		}
		r.domain[i] = d
	}
	if len(r.nodes) > 0 {
		r.setPoints(capacity / uint64(len(r.nodes)))
	}
	return r
}

// setPoints gives each node points in proportion to its capacity. The unit is a power of two, so that a change of the average moves
// no points until it passes one.
func (r *Ring) setPoints(average uint64) {
	unit := uint64(1) << (bits.Len64(average) - 1)
	for i, n := range r.nodes {
		seed := hashText(n.Name)
		if n.Name == "" {
			seed = hashText(strconv.FormatUint(uint64(n.ID), 10))
		}
		for k := range max(1, uint64(n.Capacity)*pointsPerNode/unit) {
			r.points = append(r.points, point{mix(seed + k*golden), int32(i)})
		}
	}
	slices.SortFunc(r.points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
}

// Domains is how many failure domains the candidates stand in. Chains of more members than that have some that fail
// together.
func (r *Ring) Domains() int { return r.domains }

// Place returns the first nodes that a walk from the shard's place on the ring meets, at most replicas: those of different failure
// domains first. There are fewer only if there are fewer candidates.
func (r *Ring) Place(shard uint16, replicas int) []uint32 {
	ids := make([]uint32, 0, replicas)
	for _, n := range r.place(shard, replicas, make([]int, 0, replicas)) {
		ids = append(ids, r.nodes[n].ID)
	}
	return ids
}

// place is [Ring.Place] with indices, appended to chain, which is empty.
func (r *Ring) place(shard uint16, replicas int, chain []int) []int {
	replicas = min(replicas, len(r.nodes))
	spread := min(replicas, r.domains)
	r.walk(shard, len(r.points), func(n int) bool {
		if len(chain) < spread && !slices.ContainsFunc(chain, func(m int) bool { return r.domain[m] == r.domain[n] }) {
			chain = append(chain, n)
		}
		return len(chain) < spread
	})
	if len(chain) < replicas {
		r.walk(shard, len(r.points), func(n int) bool {
			if !slices.Contains(chain, n) {
				chain = append(chain, n)
			}
			return len(chain) < replicas
		})
	}
	return chain
}

// walk visits the nodes of up to limit points from the shard's place on, until visit returns false. A node comes as often as
// it has points there.
func (r *Ring) walk(shard uint16, limit int, visit func(node int) bool) {
	at := mix(uint64(shard)*golden + shardSalt)
	start, _ := slices.BinarySearchFunc(r.points, at, func(p point, at uint64) int { return cmp.Compare(p.at, at) })
	for i := range min(limit, len(r.points)) {
		if at := start + i; !visit(int(r.points[at%len(r.points)].node)) {
			return
		}
	}
}

// The hash must stay the same in every release: chains are compared with its result.
const (
	golden    = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: multiples of it are far apart
	shardSalt = 0x5348415244530000 // keeps shards from starting where points are
	fnvBasis  = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// mix is the finalizer of MurmurHash3: every bit of x changes about half of those of the result.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// hashText is FNV-1a, mixed, with the length.
func hashText(s string) uint64 {
	h := uint64(fnvBasis)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return mix(h + uint64(len(s)))
}
