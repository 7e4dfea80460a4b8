package topology

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/netcraq/netcraq/wire"
)

// empty makes shards without chains.
func empty(shards, want int) []Chain {
	chains := make([]Chain, shards)
	for s := range chains {
		chains[s].Want = want
	}
	return chains
}

// settled makes chains as they are after a plan.
func settled(p *Plan, want int) []Chain {
	chains := empty(len(p.After), want)
	for s := range chains {
		chains[s].Members = p.After[s]
	}
	return chains
}

// without removes a node from every chain, as the suspicion of a failure does.
func without(chains []Chain, id uint32) []Chain {
	chains = slices.Clone(chains)
	for s := range chains {
		chains[s].Members = slices.DeleteFunc(slices.Clone(chains[s].Members), func(m uint32) bool { return m == id })
	}
	return chains
}

// moved counts members of a that are not in b.
func moved(a, b [][]uint32) (n int) {
	for s := range a {
		for _, id := range a[s] {
			if !slices.Contains(b[s], id) {
				n++
			}
		}
	}
	return n
}

// spreadOf returns the least and most shards, heads and tails that a node of nodes has, relative to a fair share by
// capacity.
func spreadOf(chains [][]uint32, nodes []Candidate) (least, most, heads, tails float64) {
	load, head, tail := make(map[uint32]int), make(map[uint32]int), make(map[uint32]int)
	total, capacity := 0, uint32(0)
	for _, c := range chains {
		for _, id := range c {
			load[id]++
		}
		if len(c) > 0 {
			head[c[0]]++
			tail[c[len(c)-1]]++
		}
		total += len(c)
	}
	for _, n := range nodes {
		capacity += n.Capacity
	}
	least = math.Inf(1)
	for _, n := range nodes {
		part := float64(n.Capacity) / float64(capacity)
		least = min(least, float64(load[n.ID])/(part*float64(total)))
		most = max(most, float64(load[n.ID])/(part*float64(total)))
		heads = max(heads, float64(head[n.ID])/(part*float64(len(chains))))
		tails = max(tails, float64(tail[n.ID])/(part*float64(len(chains))))
	}
	return least, most, heads, tails
}

// checkPlan checks the invariants of every plan, and that nothing is left to do after a number of plans.
func checkPlan(t interface{ Fatalf(string, ...any) }, r *Ring, chains []Chain, p *Plan, rounds int) {
	now := make([][]uint32, len(chains))
	for s := range chains {
		if now[s] = chains[s].Members; len(now[s]) == 0 {
			now[s] = p.After[s]
		}
	}
	for _, m := range p.Moves {
		before := now[m.Shard]
		if m.Join != 0 && (slices.Contains(before, m.Join) || len(before) > 1 && (m.At < 1 || m.At >= len(before)) ||
			len(before) == 1 && m.At != 1) {
			t.Fatalf("%+v cannot join %v", m, before)
		}
		if m.Leave != 0 && !slices.Contains(before, m.Leave) {
			t.Fatalf("%+v cannot leave %v", m, before)
		}
		now[m.Shard] = m.Apply(before)
	}
	for s := range now {
		if !slices.Equal(now[s], p.After[s]) {
			t.Fatalf("shard %d: the moves lead to %v, not to %v", s, now[s], p.After[s])
		}
	}
	for range rounds {
		again := slices.Clone(chains)
		for s := range again {
			again[s].Members = p.After[s]
		}
		if p = r.Plan(again); len(p.Moves) == 0 && len(p.New) == 0 {
			return
		}
	}
	t.Fatalf("what is done is not done after %d plans: %+v", rounds, p.Moves)
}

func TestPlansLeadWhereTheySayAndRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawCandidates(t, 1, 9)
		spread := rapid.SampledFrom([]string{"", "zone"}).Draw(t, "spread")
		var ids []uint32
		for _, n := range nodes {
			ids = append(ids, n.ID)
		}
		ids = append(ids, 100, 101) // no candidates
		chains := make([]Chain, 1<<rapid.IntRange(0, 5).Draw(t, "shards"))
		for s := range chains {
			order := rapid.Permutation(ids).Draw(t, "order")
			chains[s] = Chain{Members: order[:rapid.IntRange(0, min(5, len(order))).Draw(t, "members")],
				Want: rapid.IntRange(1, 5).Draw(t, "want"), Fixed: rapid.IntRange(0, 9).Draw(t, "fixed") == 0}
		}
		ring := NewRing(nodes, spread)
		p := ring.Plan(chains)
		checkPlan(t, ring, chains, p, 4)
		zone := make(map[uint32]string)
		for _, n := range nodes {
			zone[n.ID] = n.Labels["zone"]
		}
		for s, c := range chains {
			if c.Fixed && !slices.Equal(p.After[s], c.Members) {
				t.Fatalf("shard %d is fixed at %v and became %v", s, c.Members, p.After[s])
			}
			if c.Fixed {
				continue
			}
			zones := make(map[string]bool)
			for _, id := range p.After[s] {
				zones[zone[id]] = true
			}
			if spread == "zone" && len(p.After[s]) == c.Want && len(zones) < min(c.Want, ring.Domains()) &&
				!slices.ContainsFunc(p.After[s], func(id uint32) bool { return id >= 100 }) {
				t.Fatalf("shard %d: %v of %d zones stands in %d", s, p.After[s], ring.Domains(), len(zones))
			}
			if len(p.After[s]) != c.Want && len(nodes) >= c.Want+len(c.Members) {
				t.Fatalf("shard %d: %v for %+v", s, p.After[s], c)
			}
		}
	})
}

func TestNewChainsAreBalanced(t *testing.T) {
	for _, c := range []struct{ nodes, shards, replicas, zones int }{
		{3, 256, 3, 1}, {4, 256, 3, 4}, {5, 256, 2, 5}, {10, 256, 3, 5}, {20, 1024, 3, 4}, {100, 4096, 4, 10}, {1000, wire.MaxShards, 3, 10},
	} {
		nodes := candidates(c.nodes, c.zones)
		p := NewRing(nodes, "zone").Plan(empty(c.shards, c.replicas))
		least, most, heads, tails := spreadOf(p.After, nodes)
		t.Logf("%4d nodes, %5d shards of %d: shares %.3f to %.3f, heads to %.3f, tails to %.3f of the fair one", c.nodes,
			c.shards, c.replicas, least, most, heads, tails)
		share, role := float64(c.shards*c.replicas)/float64(c.nodes), float64(c.shards)/float64(c.nodes)
		if least < 1-Slack-1/share || most > 1+Slack+1/share {
			t.Errorf("shares from %.3f to %.3f of the fair one", least, most)
		}
		if heads > 1.05+1/role || tails > 1.05+1/role {
			t.Errorf("heads to %.3f, tails to %.3f of a fair share", heads, tails)
		}
		if p.UnderReplicated > 0 || len(p.Moves) > 0 || len(p.New) != c.shards {
			t.Errorf("%d under-replicated, %d moves, %d new", p.UnderReplicated, len(p.Moves), len(p.New))
		}
	}
}

// Adding or removing a node moves only the shards that it gains or loses, and a few that even out rounding.
func TestOneNodeMovesItsShareAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawCandidates(t, 4, 24)
		replicas := rapid.IntRange(1, 3).Draw(t, "replicas")
		const shards = 512
		all, fewer := NewRing(nodes, ""), NewRing(nodes[:len(nodes)-1], "")
		last := nodes[len(nodes)-1].ID
		base := fewer.Plan(empty(shards, replicas))
		var capacity uint32
		for _, n := range nodes {
			capacity += n.Capacity
		}
		fair := float64(nodes[len(nodes)-1].Capacity) / float64(capacity) * shards * float64(replicas)

		chains := settled(base, replicas)
		joined := all.Plan(chains)
		checkPlan(t, all, chains, joined, 1)
		gained := 0
		for _, c := range joined.After {
			if slices.Contains(c, last) {
				gained++
			}
		}
		// The plan is greedy: to bring the new node within Slack, it may exchange a few shards of others.
		const exchanged = 5
		limit := fair*(1+Slack) + exchanged + excess(base.After, nodes)
		if n := moved(joined.After, base.After); float64(n) > limit || gained < int(min(fair, shards)*(1-Slack)) {
			t.Fatalf("a node with a fair share of %.1f came: it gained %d, and %d moved", fair, gained, n)
		}

		chains = without(settled(joined, replicas), last)
		repaired := fewer.Plan(chains)
		checkPlan(t, fewer, chains, repaired, 1)
		lost := 0
		for _, c := range chains {
			lost += replicas - len(c.Members)
		}
		if n := moved(repaired.After, joined.After); float64(n) > float64(lost)*(1+2*Slack)+2 {
			t.Fatalf("a node with %d shards failed: %d moved", lost, n)
		}
	})
}

// excess returns the number of places above their shares that nodes may have after another one has joined.
func excess(chains [][]uint32, nodes []Candidate) float64 {
	load, total, capacity := make(map[uint32]int), 0, 0.0
	for _, c := range chains {
		total += len(c)
		for _, id := range c {
			load[id]++
		}
	}
	for _, n := range nodes {
		capacity += float64(n.Capacity)
	}
	over := 0.0
	for _, n := range nodes {
		fair := float64(n.Capacity) / capacity * float64(total)
		over += max(0, float64(load[n.ID])-fair*(1+Slack)-1)
	}
	return over
}

// The Leader carries a plan out step by step, and makes a new one when something happens: that must not cost more.
func TestPlansMadeAnewHalfwayMoveNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawCandidates(t, 5, 12)
		chains := settled(NewRing(nodes[1:], "").Plan(empty(128, 3)), 3)
		ring := NewRing(nodes[:len(nodes)-1], "") // one came, one is to leave
		first := ring.Plan(chains)
		done := rapid.IntRange(0, len(first.Moves)).Draw(t, "done")
		for _, m := range first.Moves[:done] {
			chains[m.Shard].Members = m.Apply(chains[m.Shard].Members)
		}
		second := ring.Plan(chains)
		checkPlan(t, ring, chains, second, 2)
		if float64(done+len(second.Moves)) > float64(len(first.Moves))*(1+2*Slack)+2 {
			t.Fatalf("%d of %d moves were done, and then %d were left", done, len(first.Moves), len(second.Moves))
		}
	})
}

// Long after chains were formed: nodes fail and come back empty, again and again.
func TestManyChangesLeaveTheChainsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := candidates(rapid.IntRange(5, 12).Draw(t, "nodes"), 3)
		all := NewRing(nodes, "")
		chains := settled(all.Plan(empty(256, 3)), 3)
		for range rapid.IntRange(1, 12).Draw(t, "failures") {
			failed := rapid.IntRange(0, len(nodes)-1).Draw(t, "failed")
			rest := NewRing(slices.Delete(slices.Clone(nodes), failed, failed+1), "")
			chains = settled(rest.Plan(without(chains, nodes[failed].ID)), 3)
			chains = settled(all.Plan(chains), 3)
		}
		after := all.Plan(chains).After
		least, most, heads, tails := spreadOf(after, nodes)
		if slack := Slack + float64(len(nodes))/(256*3); least < 1-slack || most > 1+slack {
			t.Fatalf("shares from %.3f to %.3f of the fair one", least, most)
		}
		if heads > 1.8 || tails > 1.8 {
			t.Fatalf("heads up to %.2f, tails up to %.2f of a fair share", heads, tails)
		}
	})
}

func TestTooFewNodesOrDomainsAreSaid(t *testing.T) {
	for _, c := range []struct{ nodes, zones, want, underReplicated, coLocated int }{
		{3, 3, 3, 0, 0}, {2, 2, 3, 16, 0}, {4, 2, 3, 0, 16}, {1, 1, 2, 16, 0}, {0, 1, 1, 16, 0}, {3, 1, 2, 0, 16},
	} {
		p := NewRing(candidates(c.nodes, c.zones), "zone").Plan(empty(16, c.want))
		if p.UnderReplicated != c.underReplicated || p.CoLocated != c.coLocated {
			t.Errorf("%+v: %d under-replicated, %d co-located", c, p.UnderReplicated, p.CoLocated)
		}
	}
}

func TestMembersForTheLoadMayFailTogether(t *testing.T) {
	chains := empty(16, 5)
	for s := range chains {
		chains[s].Extra = 2
	}
	if p := NewRing(candidates(9, 3), "zone").Plan(chains); p.CoLocated != 0 {
		t.Errorf("%d shards of 3 and 2 members in 3 zones are co-located", p.CoLocated)
	}
	if p := NewRing(candidates(9, 2), "zone").Plan(chains); p.CoLocated != 16 {
		t.Errorf("%d of 16 shards of 3 and 2 members in 2 zones are co-located", p.CoLocated)
	}
}

func TestWithoutLabelsEachFailsAlone(t *testing.T) {
	nodes := candidates(5, 1)
	for i := range nodes {
		nodes[i].Labels = map[string]string{"rack": "r1"}
	}
	if p := NewRing(nodes, "zone").Plan(empty(16, 3)); p.CoLocated != 0 {
		t.Errorf("%d shards are co-located in a zone without a name", p.CoLocated)
	}
	nodes[0].Labels = map[string]string{"zone": "a"} // from now on, the others' zone is one that is not known
	if p := NewRing(nodes, "zone").Plan(empty(16, 3)); p.CoLocated != 16 {
		t.Errorf("%d of 16 shards have two members in an unknown zone", p.CoLocated)
	}
}

func TestNodesTakeTheRoleOfThoseThatLeave(t *testing.T) {
	for _, c := range []struct {
		before      []uint32
		leave, join uint32
		after       string
	}{
		{[]uint32{1, 2, 3}, 1, 9, "[9 2 3]"},
		{[]uint32{1, 2, 3}, 2, 9, "[1 9 3]"},
		{[]uint32{1, 2, 3}, 3, 9, "[1 2 9]"},
		{[]uint32{1, 2}, 2, 9, "[1 9]"},
		{[]uint32{1}, 1, 9, "[9]"},
		{[]uint32{1, 2}, 0, 9, "[1 9 2]"},
		{[]uint32{1}, 0, 9, "[1 9]"},
	} {
		m := Move{Join: c.join, Leave: c.leave}
		m.At = m.place(c.before)
		if got := fmt.Sprint(m.Apply(c.before)); got != c.after {
			t.Errorf("%v with %d for %d: %s, not %s", c.before, c.join, c.leave, got, c.after)
		}
	}
}

func BenchmarkPlanOfAFailure(b *testing.B) {
	for _, zones := range []int{1, 2, 10, 1000} {
		b.Run(fmt.Sprintf("zones=%d", zones), func(b *testing.B) {
			nodes := candidates(1000, zones)
			chains := without(settled(NewRing(nodes, "zone").Plan(empty(wire.MaxShards, 3)), 3), 500)
			nodes = slices.Delete(nodes, 499, 500)
			for b.Loop() {
				if p := NewRing(nodes, "zone").Plan(chains); len(p.Moves) == 0 {
					b.Fatal("nothing to repair")
				}
			}
		})
	}
}

func BenchmarkPlanOfNewChains(b *testing.B) {
	for _, zones := range []int{1, 2, 10, 1000} {
		b.Run(fmt.Sprintf("zones=%d", zones), func(b *testing.B) {
			nodes := candidates(1000, zones)
			for b.Loop() {
				NewRing(nodes, "zone").Plan(empty(wire.MaxShards, 3))
			}
		})
	}
}
