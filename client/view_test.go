package client

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// checkInvariants returns an error if the view does not agree with its map, or has not kept the measurements and
// batches of the view before. before may be nil.
func (v *view) checkInvariants(before *view) error {
	m := v.source
	if len(v.routes) != len(m.Chains) || len(v.nodes) != len(m.Nodes) || len(v.byAddr) != len(m.Nodes) {
		return fmt.Errorf("%d routes, %d nodes and %d addresses of %d chains and %d nodes",
			len(v.routes), len(v.nodes), len(v.byAddr), len(m.Chains), len(m.Nodes))
	}
	for _, n := range m.Nodes {
		of := v.nodes[n.Name]
		if of == nil || of.name != n.Name || of.addr != n.Addr || of.udp.AddrPort() != n.Addr || v.byAddr[n.Addr] != of {
			return fmt.Errorf("node %s at %v is %+v", n.Name, n.Addr, of)
		}
		if before == nil {
			continue
		}
		if was := before.nodes[n.Name]; was != nil && was.addr == n.Addr && was != of {
			return fmt.Errorf("node %s has lost its measurements", n.Name)
		}
	}
	for i, r := range v.routes {
		if err := v.checkRoute(r, &m.Chains[i]); err != nil {
			return fmt.Errorf("chain %d: %w", i, err)
		}
		if before == nil || i >= len(before.routes) {
			continue
		}
		was := before.routes[i]
		if slices.Equal(was.members, r.members) != (was.writes == r.writes) {
			return fmt.Errorf("chain %d has the batches of other members, or has lost its own", i)
		}
	}
	if before != nil {
		return v.checkLater(before)
	}
	return nil
}

func (v *view) checkRoute(r *route, c *MapChain) error {
	if r.view != v || r.epoch != c.Epoch || r.lost != c.Lost || len(r.members) != len(c.Members) || r.writes == nil {
		return fmt.Errorf("%+v is no route of %+v", r, c)
	}
	for place, number := range c.Members {
		if r.members[place] != v.nodes[v.source.Nodes[number].Name] {
			return fmt.Errorf("member %d is %s", place, r.members[place].name)
		}
		if (r.serving>>place&1 != 0) != (place != c.Learner) {
			return fmt.Errorf("serving %b with learner %d", r.serving, c.Learner)
		}
	}
	return nil
}

// checkLater checks that no epoch and no version went back.
func (v *view) checkLater(before *view) error {
	if v.source.Version <= before.source.Version {
		return fmt.Errorf("version %d after %d", v.source.Version, before.source.Version)
	}
	for shard := range v.source.ByShard {
		if was, is := before.route(uint16(shard)).epoch, v.route(uint16(shard)).epoch; is < was {
			return fmt.Errorf("shard %d is in epoch %d after %d", shard, is, was)
		}
	}
	return nil
}

const mapShards = 4

// randomMap returns a map of some of nine nodes, about as new as an earlier one.
func randomMap(rng *rand.Rand, before *Map) *Map {
	m := &Map{Version: before.Version + rng.Uint64N(4), Cluster: "c"}
	if m.Version > 0 {
		m.Version-- // at times it is no newer
	}
	for i := range 9 {
		if rng.IntN(4) > 0 {
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i + 10*(rng.IntN(20)/19))}), 4411)
			m.Nodes = append(m.Nodes, Node{Name: fmt.Sprint("n", i), Addr: addr})
		}
	}
	for i := range 1 + rng.IntN(3) {
		c := MapChain{Epoch: uint32(rng.IntN(3)), Learner: -1, Lost: rng.IntN(9) == 0}
		if i < len(before.Chains) {
			c.Epoch += before.Chains[i].Epoch
		}
		if len(m.Nodes) > 0 && !c.Lost {
			c.Members = rng.Perm(len(m.Nodes))[:rng.IntN(1+min(len(m.Nodes), 4))]
		}
		if len(c.Members) > 2 && rng.IntN(3) == 0 {
			c.Learner = 1
		}
		m.Chains = append(m.Chains, c)
	}
	for range mapShards {
		m.ByShard = append(m.ByShard, uint32(rng.IntN(len(m.Chains))))
	}
	return m
}

// TestViewsFollow has a client take random maps, newer ones and others.
func TestViewsFollow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	taken := 0
	for range 200 {
		first := clusterOf(mapShards, netip.MustParseAddrPort("127.0.0.1:4411"))
		c := newClient(t, Options{Cluster: first})
		for range 50 {
			before := c.view.Load()
			c.take(randomMap(rng, before.source))
			now := c.view.Load()
			if now == before {
				continue
			}
			taken++
			if err := now.checkInvariants(before); err != nil {
				t.Fatal(err)
			}
		}
	}
	if taken < 500 {
		t.Errorf("%d maps were taken", taken)
	}
}

// TestCheckViews breaks one invariant of a view at a time.
func TestCheckViews(t *testing.T) {
	at := func(n byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 4411) }
	source := func(version uint64) *Map {
		return &Map{
			Version: version, Nodes: []Node{{Name: "a", Addr: at(1)}, {Name: "b", Addr: at(2)}, {Name: "c", Addr: at(3)}},
			Chains:  []MapChain{{Epoch: 5, Members: []int{0, 1, 2}, Learner: 1}},
			ByShard: []uint32{0},
		}
	}
	for what, break1 := range map[string]func(v, before *view){
		"":                        func(_, _ *view) {},
		"a node too many":         func(v, _ *view) { v.nodes["d"] = &member{} },
		"an address of another":   func(v, _ *view) { v.byAddr[at(1)] = v.nodes["b"] },
		"another address":         func(v, _ *view) { v.nodes["a"].addr = at(9) },
		"new measurements":        func(v, before *view) { before.nodes["a"] = &member{name: "a", addr: at(1)} },
		"a route of another view": func(v, before *view) { v.routes[0].view = before },
		"another epoch":           func(v, _ *view) { v.routes[0].epoch++ },
		"a member in its place":   func(v, _ *view) { slices.Reverse(v.routes[0].members) },
		"a learner that answers":  func(v, _ *view) { v.routes[0].serving = 7 },
		"lost batches":            func(v, _ *view) { v.routes[0].writes = new([maxSockets]batching) },
		"an older version":        func(v, _ *view) { v.source.Version = 1 },
		"an older epoch":          func(v, before *view) { before.routes[0].epoch = 6 },
	} {
		before, err := newView(source(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := newView(source(2), before)
		if err != nil {
			t.Fatal(err)
		}
		break1(v, before)
		if err := v.checkInvariants(before); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
