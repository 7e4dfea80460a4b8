package reconfig

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// shortOfHeads is the part of a node's fair share of heads that it may lack before heads are given to it.
const shortOfHeads = 0.25

// leastGiver is the number of members of a chain that may give up its head for a moment: two copies stay.
const leastGiver = 3

// headShare is in how many chains a node stands first, and in how many it would if any member were as likely as any other.
type headShare struct {
	heads int
	fair  float64
}

// lacks is the number of chains that the node would have to head besides.
func (h headShare) lacks() float64 { return h.fair - float64(h.heads) }

// headShares counts the chains of all shards.
func (s *State) headShares() map[NodeID]headShare {
	shares := make(map[NodeID]headShare)
	for i := range s.Shards {
		members := s.Shards[i].Members
		for at, id := range members {
			h := shares[id]
			h.fair += 1 / float64(len(members))
			if at == 0 {
				h.heads++
			}
			shares[id] = h
		}
	}
	const exact = 1e6 // sums of thirds are whole again
	for id, h := range shares {
		h.fair = math.Round(h.fair*exact) / exact
		shares[id] = h
	}
	return shares
}

// isShort reports whether a node lacks so many heads that they are given to it. One of them makes no difference.
func (h headShare) isShort() bool { return h.lacks() >= max(1, shortOfHeads*h.fair) }

// whole reports whether no node is suspected, and no chain short of members or being copied: no repair is due.
func (s *State) whole() bool {
	for _, n := range s.Nodes {
		if n.Standing.Fenced() && n.Standing != Removed {
			return false
		}
	}
	for i := range s.Shards {
		shard := &s.Shards[i]
		if shard.Lost || shard.Learner != 0 || shard.FrozenFor != 0 || len(shard.Members) != s.Settings.Replicas+int(shard.Extra) {
			return false
		}
	}
	return true
}

// giveHeads gives heads back to nodes that have few of them: a node that returns to a chain stands inside it (C3), and
// would order no write for ever. A few shards change at a time, and none while a repair is due.
func (b *Balancer) giveHeads(now time.Duration, s *State) []Command {
	if !s.whole() {
		return nil
	}
	shares := s.headShares()
	var commands []Command
	for _, to := range shortest(shares) {
		_, giving := b.short[to] // until the node has its share
		if !lasting(b.short, to, shares[to].isShort() || giving && shares[to].lacks() >= 1, now, b.options.After) {
			continue
		}
		for i := range s.Shards {
			if len(commands) == b.options.AtOnce {
				return commands
			}
			shard, number := &s.Shards[i], uint16(i)
			if len(shard.Members) < leastGiver || shard.Members[1] != to || !rested(b.changed, number, now, b.options.After) {
				continue
			}
			from := shard.Members[0]
			if s.Nodes[from].Standing != Up || s.Nodes[to].Standing != Up || shares[to].lacks() < shares[from].lacks()+2 ||
				shares[to].lacks() < 1 {
				continue
			}
			giver, taker := shares[from], shares[to]
			giver.heads, taker.heads = giver.heads-1, taker.heads+1
			shares[from], shares[to] = giver, taker
			b.changed[number] = now
			commands = append(commands, HandOver{Shard: number, From: s.Nodes[from].Name})
		}
	}
	return commands
}

// shortest lists nodes, those that lack most heads first.
func shortest(shares map[NodeID]headShare) []NodeID {
	return slices.SortedFunc(maps.Keys(shares), func(x, y NodeID) int {
		return cmp.Or(cmp.Compare(shares[y].lacks(), shares[x].lacks()), cmp.Compare(x, y))
	})
}

// headsNotes says which nodes head too few chains.
func (s *State) headsNotes() (notes []string) {
	shares := s.headShares()
	for _, id := range sorted(shares) {
		h, n := shares[id], s.Nodes[id]
		if n.Standing != Up || !h.isShort() {
			continue
		}
		what := "it gets more, a few at a time"
		switch {
		case s.Settings.Replicas < leastGiver:
			what = fmt.Sprintf("chains of fewer than %d members keep their heads", leastGiver)
		case !s.whole():
			what = "it gets more when no node is suspected and all chains have their members"
		}
		notes = append(notes, fmt.Sprintf("node %s is head of %d shards, and its share is %.0f: others order its part of the writes; %s",
			n.Name, h.heads, h.fair, what))
	}
	return notes
}

// checkHandOver returns why the head of a chain cannot step back now.
func (l *Leader) checkHandOver(c *HandOver) error {
	if err := l.checkShard(c.Shard); err != nil {
		return err
	}
	from, err := l.named(c.From)
	if err != nil {
		return err
	}
	s, n := &l.state.Shards[c.Shard], l.nodes[from.ID]
	switch {
	case len(s.Members) == 0 || s.Members[0] != from.ID:
		return fmt.Errorf("node %s is not the head of shard %d", c.From, c.Shard)
	case len(s.Members) < leastGiver || len(s.Members) != l.members(s):
		return fmt.Errorf("the chain of shard %d has %d members: its head stays", c.Shard, len(s.Members))
	case from.Standing != Up || n.failure != "" || l.time < max(n.rests, n.distrust):
		return fmt.Errorf("node %s might not return to the chain of shard %d", c.From, c.Shard)
	case !l.rests(c.Shard) || s.Born == 0:
		return fmt.Errorf("shard %d is changing now: try again", c.Shard)
	}
	for i, id := range s.Members {
		if !l.agentHeard(l.nodes[id]) || i > 0 && !l.certain(c.Shard, id) {
			return fmt.Errorf("node %s, of the chain of shard %d, was not heard lately, or its agent ends", l.name(id), c.Shard)
		}
	}
	return nil
}

// handOver takes the head out of a chain. It keeps its copy, and comeback puts it back, inside the chain (C7).
func (d *draft) handOver(c *HandOver) {
	if !d.touched(c.Shard) {
		d.chain(c.Shard, slices.Clone(d.l.state.Shards[c.Shard].Members[1:]), 0, 0)
	}
}
