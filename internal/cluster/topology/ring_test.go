package topology

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/netcraq/netcraq/wire"
)

// candidates makes n nodes of one capacity in zones that take turns.
func candidates(n, zones int) []Candidate {
	nodes := make([]Candidate, n)
	for i := range nodes {
		nodes[i] = Candidate{ID: uint32(i + 1), Name: fmt.Sprintf("node-%d", i+1), Capacity: 100,
			Labels: map[string]string{"zone": fmt.Sprint(i % zones)}}
	}
	return nodes
}

// drawCandidates draws nodes of differing capacities, in zones of differing sizes.
func drawCandidates(t *rapid.T, least, most int) []Candidate {
	nodes := candidates(rapid.IntRange(least, most).Draw(t, "nodes"), rapid.IntRange(1, 6).Draw(t, "zones"))
	for i := range nodes {
		nodes[i].Capacity = rapid.Uint32Range(50, 200).Draw(t, "capacity")
	}
	return nodes
}

func TestPlacesAreDistinctAndSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawCandidates(t, 1, 12)
		ring := NewRing(nodes, "zone")
		replicas := rapid.IntRange(1, wire.MaxChain).Draw(t, "replicas")
		zone := make(map[uint32]string)
		for _, n := range nodes {
			zone[n.ID] = n.Labels["zone"]
		}
		for shard := range 64 {
			ids := ring.Place(uint16(shard), replicas)
			nodes, zones := make(map[uint32]bool), make(map[string]bool)
			for _, id := range ids {
				nodes[id], zones[zone[id]] = true, true
			}
			if len(ids) != min(replicas, len(zone)) || len(nodes) != len(ids) {
				t.Fatalf("shard %d: %v of %d nodes, %d wanted", shard, ids, len(zone), replicas)
			}
			if len(zones) != min(replicas, ring.Domains()) {
				t.Fatalf("shard %d: %v stand in %d zones of %d", shard, ids, len(zones), ring.Domains())
			}
		}
	})
}

func TestRingDependsOnTheSetAlone(t *testing.T) {
	nodes := candidates(20, 3)
	a := NewRing(nodes, "zone")
	slices.Reverse(nodes)
	b := NewRing(nodes, "zone")
	for shard := range 1024 {
		if x, y := a.Place(uint16(shard), 3), b.Place(uint16(shard), 3); !slices.Equal(x, y) {
			t.Fatalf("shard %d: %v or %v, by the order of the candidates", shard, x, y)
		}
	}
}

// A hash that gives another result tomorrow would move every shard of every cluster.
func TestPlacesStayTheSameForEver(t *testing.T) {
	ring := NewRing(candidates(10, 5), "zone")
	for shard, want := range map[uint16][]uint32{0: {2, 1, 5}, 1: {5, 2, 6}, 2: {2, 5, 8}, 255: {7, 8, 10}, 65535: {1, 5, 7}} {
		if got := ring.Place(shard, 3); !slices.Equal(got, want) {
			t.Errorf("shard %d: %v, and was %v", shard, got, want)
		}
	}
}

// A ring alone moves nothing between two nodes that stay, except for failure domains.
func TestRingMovesOnlyTheShareOfTheNodeThatComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawCandidates(t, 4, 40)
		for i := range nodes {
			nodes[i].Capacity = 70 + nodes[i].Capacity/4 // the average stays between two powers of two
		}
		replicas := rapid.IntRange(1, 3).Draw(t, "replicas")
		added := nodes[len(nodes)-1]
		before, after := NewRing(nodes[:len(nodes)-1], ""), NewRing(nodes, "")
		for shard := range 512 {
			was, is := before.Place(uint16(shard), replicas), after.Place(uint16(shard), replicas)
			if slices.Contains(is, added.ID) {
				is = slices.DeleteFunc(is, func(id uint32) bool { return id == added.ID })
				was = was[:replicas-1]
			}
			if !slices.Equal(was, is) {
				t.Fatalf("shard %d: %v became %v when node %d came", shard, was, is, added.ID)
			}
		}
	})
}

func TestRingAloneIsBalanced(t *testing.T) {
	const nodes, shards, replicas = 100, wire.MaxShards, 3
	ring := NewRing(candidates(nodes, 10), "")
	load := make(map[uint32]int)
	for shard := range shards {
		for _, id := range ring.Place(uint16(shard), replicas) {
			load[id]++
		}
	}
	fair := float64(shards * replicas / nodes)
	var squares float64
	for _, n := range load {
		squares += (float64(n)/fair - 1) * (float64(n)/fair - 1)
	}
	deviation := math.Sqrt(squares / nodes)
	least, most := slices.Min(slices.Collect(maps.Values(load))), slices.Max(slices.Collect(maps.Values(load)))
	t.Logf("shards a node: %.0f on average, %d to %d, standard deviation %.1f %%", fair, least, most, 100*deviation)
	if deviation > 0.12 {
		t.Errorf("standard deviation %.1f %%, more than 12 %%", 100*deviation)
	}
}

func BenchmarkRing(b *testing.B) {
	nodes := candidates(1000, 10)
	for b.Loop() {
		ring := NewRing(nodes, "zone")
		for shard := range wire.MaxShards {
			ring.Place(uint16(shard), 3)
		}
	}
}
