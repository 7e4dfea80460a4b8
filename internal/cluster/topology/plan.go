package topology

import (
	"cmp"
	"slices"
)

// Chain is a shard's present chain and its wanted length.
type Chain struct {
	Members []uint32 // head first. Those that are not candidates leave. None: the shard gets a new chain
	Want    int      // members wanted; fewer only where there are fewer candidates
	Extra   int      // how many of these only share the load: they may fail together with others
	Fixed   bool     // its load counts, but it is not changed now
}

// Reason is the purpose of a [Move]. The most urgent comes first.
type Reason uint8

// Reasons to move.
const (
	Repair Reason = iota // the chain is short of members
	Vacate               // Leave is no candidate any more
	Spread               // two members would fail together
	Shrink               // the chain has more members than wanted
	Level                // nodes differ too much in their load
)

var reasons = [...]string{"repair", "vacate", "spread", "shrink", "level"}

// String is the reason in one word.
func (r Reason) String() string { return reasons[r] }

// Move is one step for one chain: node Join joins, and when it is complete node Leave leaves. Either may be 0, for none.
type Move struct {
	Shard uint16
	Join  uint32
	At    int // where in the chain Join stands before Leave leaves: inside, or at the end of a chain of one
	Leave uint32
	Why   Reason
}

// Plan is how to come from the chains there are to those there should be.
type Plan struct {
	Moves           []Move     // most urgent first; those of one shard are done in this order, one after the other
	New             []uint16   // shards that had no chain
	After           [][]uint32 // every shard's chain when all is done
	UnderReplicated int        // shards that even then have fewer members than wanted, for want of candidates
	CoLocated       int        // shards that even then have members that fail together, those for the load not counted
}

// Plan returns the changes after which every chain has the number of members it wants, in different failure domains as far
// as possible. Every candidate then has its fair share of all places, within [Slack] and one shard, as far as failure
// domains allow. Plan is deterministic and makes only necessary moves: if a node is added, it gets its share and nothing
// else moves. After a plan is carried out, the next plan is empty, except that a removed member may join its chain again if
// it is needed.
//
// A node that replaces another one takes its role. New chains distribute heads and tails in proportion to shares.
func (r *Ring) Plan(chains []Chain) *Plan {
	p := r.newPlanner(chains)
	if len(r.nodes) > 0 {
		p.vacate()
		p.fill()
		p.spread()
		for more := true; more; {
			more = p.feed() || p.shed()
		}
		p.arrange()
	}
	return p.result()
}

// slot is one place in a chain while a plan is made.
type slot struct {
	node int32  // index in Ring.nodes; -1: a node that is no candidate
	was  uint32 // the node that has the place now; 0: none
	why  Reason
}

// planner is a plan in the making.
type planner struct {
	*Ring
	chains       []Chain
	slots        [][]slot
	gone         []Move // those that leave without anybody in their place
	share        []share
	load         []int
	heads, tails []int   // of chains that exist
	ends         float64 // shards over places: a node's fair share of heads and tails, relative to its share
}

func (r *Ring) newPlanner(chains []Chain) *planner {
	p := &planner{Ring: r, chains: chains, slots: make([][]slot, len(chains)),
		load: make([]int, len(r.nodes)), heads: make([]int, len(r.nodes)), tails: make([]int, len(r.nodes))}
	index := make(map[uint32]int32, len(r.nodes))
	for i, n := range r.nodes {
		index[n.ID] = int32(i)
	}
	total, limit := 0, 0
	for s, c := range chains {
		for _, id := range c.Members {
			n, ok := index[id]
			if !ok {
				n = -1
			}
			p.slots[s] = append(p.slots[s], slot{node: n, was: id})
			p.count(s, len(p.slots[s])-1, 1)
		}
		want := min(c.Want, len(r.nodes))
		if c.Fixed {
			want = len(c.Members)
		}
		total += want
		if r.domains > 0 {
			limit += (want + r.domains - 1) / r.domains
		}
	}
	for s := range p.slots {
		p.countEnds(s, 1)
	}
	p.share = r.shares(total, len(chains), limit)
	if total > 0 {
		p.ends = float64(len(chains)) / float64(total)
	}
	return p
}

// count adds the weight of a place to its node's load.
func (p *planner) count(shard, at, by int) {
	if n := p.slots[shard][at].node; n >= 0 {
		p.load[n] += by
	}
}

// countEnds counts the head and tail of an existing chain.
func (p *planner) countEnds(shard, by int) {
	slots := p.slots[shard]
	if len(slots) == 0 || len(p.chains[shard].Members) == 0 {
		return
	}
	if n := slots[0].node; n >= 0 {
		p.heads[n] += by
	}
	if n := slots[len(slots)-1].node; n >= 0 {
		p.tails[n] += by
	}
}

// put gives a place to another node.
func (p *planner) put(shard, at int, node int32, why Reason) {
	p.countEnds(shard, -1)
	p.count(shard, at, -1)
	s := &p.slots[shard][at]
	if s.node < 0 || p.ID(s.node) == s.was { // else the place changes for an older reason
		s.why = why
	}
	s.node = node
	p.count(shard, at, 1)
	p.countEnds(shard, 1)
}

// ID is a node's; 0 for one that is no candidate.
func (p *planner) ID(node int32) uint32 {
	if node < 0 {
		return 0
	}
	return p.nodes[node].ID
}

// inside returns the place at which a node joins a chain of that length without replacing a member.
func inside(length int) int {
	if length < 2 {
		return length
	}
	return (length + 1) / 2
}

// result puts the moves in order and carries them out on paper.
func (p *planner) result() *Plan {
	plan := &Plan{After: make([][]uint32, len(p.chains))}
	moves := p.gone
	for s, slots := range p.slots {
		if len(p.chains[s].Members) == 0 {
			for _, slot := range slots {
				plan.After[s] = append(plan.After[s], p.ID(slot.node))
			}
			if len(slots) > 0 {
				plan.New = append(plan.New, uint16(s))
			}
			continue
		}
		plan.After[s] = slices.Clone(p.chains[s].Members)
		for _, slot := range slots {
			if id := p.ID(slot.node); id != 0 && id != slot.was {
				moves = append(moves, Move{Shard: uint16(s), Join: id, Leave: slot.was, Why: slot.why})
			}
		}
	}
	slices.SortStableFunc(moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Why, b.Why), cmp.Compare(len(p.chains[a.Shard].Members), len(p.chains[b.Shard].Members)),
			cmp.Compare(a.Shard, b.Shard))
	})
	for i := range moves {
		m := &moves[i]
		m.At = m.place(plan.After[m.Shard])
		plan.After[m.Shard] = m.Apply(plan.After[m.Shard])
	}
	plan.Moves = moves
	for s, c := range p.chains {
		if len(p.slots[s]) < c.Want {
			plan.UnderReplicated++
		}
		if p.domainsOf(p.slots[s]) < min(len(p.slots[s]), c.Want-c.Extra) {
			plan.CoLocated++
		}
	}
	return plan
}

// place is where Join has to stand to have Leave's role when that has left.
func (m *Move) place(members []uint32) int {
	if m.Join == 0 {
		return 0
	}
	at := slices.Index(members, m.Leave)
	switch {
	case len(members) < 2:
		return len(members)
	case at < 0:
		return inside(len(members))
	}
	return max(at, 1)
}

// Apply returns the chain after the move.
func (m Move) Apply(members []uint32) []uint32 {
	after := slices.Clone(members)
	if m.Join != 0 {
		after = slices.Insert(after, m.At, m.Join)
	}
	return slices.DeleteFunc(after, func(id uint32) bool { return id == m.Leave && id != 0 })
}
