package topology

import (
	"math"
	"slices"
)

// reach is how many points of the ring are tried for a node with room before all nodes are compared.
const reach = 64

// vacate replaces members that are not candidates, where another node can take their place.
func (p *planner) vacate() {
	for s, c := range p.chains {
		for at := len(p.slots[s]) - 1; at >= 0 && !c.Fixed; at-- {
			switch {
			case p.slots[s][at].node >= 0:
			case len(p.slots[s]) > c.Want:
				p.drop(s, at, Vacate)
			default:
				if n, ok := p.choose(s); ok {
					p.put(s, at, n, Vacate)
				}
			}
		}
	}
}

// fill brings chains to the length they want.
func (p *planner) fill() {
	for s, c := range p.chains {
		if c.Fixed {
			continue
		}
		for len(p.slots[s]) < c.Want {
			n, ok := p.choose(s)
			if !ok {
				break
			}
			at := inside(len(p.slots[s]))
			p.countEnds(s, -1)
			p.slots[s] = slices.Insert(p.slots[s], at, slot{node: n, why: Repair})
			p.count(s, at, 1)
			p.countEnds(s, 1)
		}
		for len(p.slots[s]) > c.Want && c.Want > 0 {
			p.drop(s, p.worst(s), Shrink)
		}
	}
}

// drop removes a place.
func (p *planner) drop(shard, at int, why Reason) {
	p.countEnds(shard, -1)
	p.count(shard, at, -1)
	p.gone = append(p.gone, Move{Shard: uint16(shard), Leave: p.slots[shard][at].was, Why: why})
	p.slots[shard] = slices.Delete(p.slots[shard], at, at+1)
	p.countEnds(shard, 1)
}

// worst is the place that a chain can do without most easily: of a node that fails together with another member, else of the
// one that has most.
func (p *planner) worst(shard int) int {
	at, most := 0, -1.0
	for i, slot := range p.slots[shard] {
		if slot.node < 0 {
			return i
		}
		if w := p.fullness(slot.node, 0) + 1e6*float64(p.together(p.slots[shard], slot.node)); w > most {
			at, most = i, w
		}
	}
	return at
}

// fullness is a node's load with so many shards more, relative to its fair share.
func (p *planner) fullness(node int32, more int) float64 {
	return float64(p.load[node]+more) / max(p.share[node].fair, math.SmallestNonzeroFloat32)
}

// together counts the members that would fail together with a node, itself included.
func (p *planner) together(slots []slot, node int32) int {
	count := 0
	for _, slot := range slots {
		if slot.node >= 0 && p.domain[slot.node] == p.domain[node] {
			count++
		}
	}
	return count
}

// domainsOf counts the failure domains that members stand in.
func (p *planner) domainsOf(slots []slot) (used int) {
	for i, slot := range slots {
		if slot.node >= 0 && p.together(slots[:i], slot.node) == 0 {
			used++
		}
	}
	return used
}

// company is how many members a new one has to fail together with, if failure domains are of equal size: none while there is a domain
// without a member.
func (p *planner) company(slots []slot) int {
	if p.domainsOf(slots) < p.domains {
		return 0
	}
	return len(slots) / p.domains
}

// stranger reports whether a node is not in a shard's chain, and was not when the plan began: no node leaves and joins in
// one plan.
func (p *planner) stranger(shard int, node int32) bool {
	return !slices.ContainsFunc(p.slots[shard], func(s slot) bool { return s.node == node }) &&
		!slices.Contains(p.chains[shard].Members, p.nodes[node].ID)
}

// choose finds a node that may join a shard's chain: the first on the ring that fails apart from the members and has less than
// its share; else of all the one that fails together with fewest, and of those the one that is least full.
func (p *planner) choose(shard int) (chosen int32, found bool) {
	slots := p.slots[shard]
	company := p.company(slots)
	p.walk(uint16(shard), reach, func(i int) bool {
		n := int32(i)
		if float64(p.load[n]) < p.share[n].fair && p.together(slots, n) <= company && p.stranger(shard, n) {
			chosen, found = n, true
		}
		return !found
	})
	if found {
		return chosen, true
	}
	least := math.Inf(1)
	for i := range p.nodes {
		n := int32(i)
		if w := p.fullness(n, 1) + 1e6*float64(p.together(slots, n)); w < least && p.stranger(shard, n) {
			chosen, found, least = n, true, w
		}
	}
	return chosen, found
}

// spread replaces members that share a failure domain, where a node of another domain is available.
func (p *planner) spread() {
	for s, c := range p.chains {
		slots := p.slots[s]
		for at := len(slots) - 1; at >= 0 && !c.Fixed && p.company(slots) == 0; at-- {
			if slots[at].node < 0 || p.together(slots, slots[at].node) < 2 {
				continue
			}
			if n, ok := p.choose(s); ok && p.together(slots, n) == 0 {
				p.put(s, at, n, Spread)
			}
		}
	}
}

// mayReplace reports whether the members of a shard fail apart as well with node x in the place of y.
func (p *planner) mayReplace(shard int, x, y int32) bool {
	slots := p.slots[shard]
	return p.stranger(shard, x) && (p.domain[x] == p.domain[y] || p.together(slots, x) < p.together(slots, y))
}

// shed takes shards from nodes that have too many, down to their share, and reports whether it moved any.
func (p *planner) shed() (moved bool) {
	over := p.which(func(n int) bool { return p.load[n] > p.share[n].most })
	for s, c := range p.chains {
		if len(over) == 0 {
			break
		}
		for k := 0; k < len(p.slots[s]) && !c.Fixed; k++ {
			at := (s + k) % len(p.slots[s]) // heads no more often than others
			y := p.slots[s][at].node
			if y < 0 || !over[y] {
				continue
			}
			x, ok := p.taker(s, y)
			if !ok {
				continue
			}
			p.put(s, at, x, Level)
			moved = true
			if float64(p.load[y]) <= p.share[y].fair {
				delete(over, y)
			}
		}
	}
	return moved
}

// taker finds a node with less than its share that may take y's place: the first on the ring, else the one that has
// least.
func (p *planner) taker(shard int, y int32) (taker int32, found bool) {
	p.walk(uint16(shard), reach, func(i int) bool {
		x := int32(i)
		if float64(p.load[x]) < p.share[x].fair && p.mayReplace(shard, x, y) {
			taker, found = x, true
		}
		return !found
	})
	if found {
		return taker, true
	}
	least := 1.0
	for i := range p.nodes {
		x := int32(i)
		if w := p.fullness(x, 0); w < least && p.mayReplace(shard, x, y) {
			taker, found, least = x, true, w
		}
	}
	return taker, found
}

// feed moves shards from nodes above their share to nodes below their share, and reports whether it moved any. It prefers
// shards that the ring assigns to the node.
func (p *planner) feed() (moved bool) {
	under := p.which(func(n int) bool { return p.load[n] < p.share[n].least })
	var order []int32
	for i := range p.nodes {
		if under[int32(i)] {
			order = append(order, int32(i))
		}
	}
	place := make([]int, 0, len(p.nodes))
	for _, fromRing := range []bool{true, false} {
		for s, c := range p.chains {
			if len(under) == 0 {
				return moved
			}
			if c.Fixed {
				continue
			}
			takers := order
			if fromRing {
				takers = takers[:0:0]
				for _, n := range p.place(uint16(s), len(p.slots[s]), place[:0]) {
					takers = append(takers, int32(n))
				}
			}
			for _, x := range takers {
				if under[x] && p.feedFrom(s, x) {
					moved = true
					if p.load[x] >= int(p.share[x].fair) {
						delete(under, x)
						order = slices.DeleteFunc(order, func(n int32) bool { return n == x })
					}
					break
				}
			}
		}
	}
	return moved
}

// feedFrom gives x a place in a shard's chain if a member can spare it: the one that has most, but rather a head or a tail if
// x has too few such roles, and rather none if it has enough.
func (p *planner) feedFrom(shard int, x int32) bool {
	at, most := -1, math.Inf(-1)
	slots := p.slots[shard]
	for i, slot := range slots {
		y := slot.node
		if y < 0 || float64(p.load[y]) <= p.share[y].fair || !p.mayReplace(shard, x, y) {
			continue
		}
		w := p.fullness(y, 0)
		if i == 0 {
			w += p.lack(p.heads, x)
		}
		if i == len(slots)-1 {
			w += p.lack(p.tails, x)
		}
		if w > most {
			at, most = i, w
		}
	}
	if at >= 0 {
		p.put(shard, at, x, Level)
	}
	return at >= 0
}

// lack is positive if a node has less than its share of a role.
func (p *planner) lack(role []int, node int32) float64 {
	if float64(role[node]) < p.share[node].fair*p.ends {
		return 1
	}
	return -1
}

// arrange puts the members of new chains in order, so that heads and tails are shared out like everything else.
func (p *planner) arrange() {
	heads, tails := slices.Clone(p.heads), slices.Clone(p.tails)
	for s, slots := range slices.Backward(p.slots) { // the last had least choice of nodes
		if len(slots) == 0 || len(p.chains[s].Members) > 0 {
			continue
		}
		p.bring(slots, heads)
		if last := len(slots) - 1; last > 0 {
			rest := slots[1:]
			slices.Reverse(rest)
			p.bring(rest, tails)
			slices.Reverse(rest)
		} else {
			tails[slots[0].node]++
		}
	}
}

// bring puts the node that has least of a role first.
func (p *planner) bring(slots []slot, role []int) {
	best, least := 0, math.Inf(1)
	for i, slot := range slots {
		if w := float64(role[slot.node]+1) / max(p.share[slot.node].fair, math.SmallestNonzeroFloat32); w < least {
			best, least = i, w
		}
	}
	slots[0], slots[best] = slots[best], slots[0]
	role[slots[0].node]++
}

// which is the set of nodes that something is true of.
func (p *planner) which(is func(node int) bool) map[int32]bool {
	set := make(map[int32]bool)
	for n := range p.nodes {
		if is(n) {
			set[int32(n)] = true
		}
	}
	return set
}
