package reconfig

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// BalanceOptions set the loads that cause a change. A zero value means the default.
type BalanceOptions struct {
	HotReads float64       // reads a second at each member that make a shard hot; default 50,000
	HotNode  float64       // operations a second below which no node is too busy; default 50,000
	After    time.Duration // time for which a load has to last before it causes a change; default 5 s
	CoolDown time.Duration // time after a change of a shard, and before its chain is shortened; default 1 min
	AtOnce   int           // changes in one decision; default 4
}

const (
	// relief is the share of HotReads that the remaining members would serve at most after the chain is shortened. It is
	// far below the load that makes the chain longer.
	relief = 0.4
	// busier is how much more than the mean a node has to do before shards move away from it.
	busier = 1.5
	// calmer is how much less than the source, after a move, the target does at least. A load that wavers by a fifth
	// changes the ratio of two nodes' loads by 1.5 at most, which is less than calmer squared, so no shard comes back.
	calmer = 1.25
	// minReads is the number of reads for each write from which a longer chain pays, since each member slows writes.
	minReads = 4
)

// Balancer changes chains by load: it lengthens chains with many reads, shortens them afterwards, and moves shards away
// from nodes with much more load than others. It also gives heads to nodes with few of them. A load has to last, and a
// changed shard rests. The load after a decision is well away from the load that would undo it, so a steady load causes no
// further change.
type Balancer struct {
	options BalanceOptions
	hot     map[uint16]time.Duration // shards that one more member would help: since when
	calm    map[uint16]time.Duration // shards that would do with one less: since when
	short   map[NodeID]time.Duration // nodes with too few heads: since when
	over    map[uint16]time.Duration // shards with more members than there are nodes: since when
	changed map[uint16]time.Duration // shards: when they were changed last
	busy    map[NodeID]time.Duration // nodes that do too much: since when
	moved   map[NodeID]time.Duration // nodes: when a shard came or went last
}

// NewBalancer returns a balancer without observations.
func NewBalancer(o BalanceOptions) *Balancer {
	o.HotReads = cmp.Or(o.HotReads, 50_000)
	o.HotNode = cmp.Or(o.HotNode, 50_000)
	o.After = cmp.Or(o.After, 5*time.Second)
	o.CoolDown = cmp.Or(o.CoolDown, time.Minute)
	o.AtOnce = cmp.Or(o.AtOnce, 4)
	return &Balancer{options: o, hot: make(map[uint16]time.Duration), calm: make(map[uint16]time.Duration),
		over: make(map[uint16]time.Duration), short: make(map[NodeID]time.Duration),
		changed: make(map[uint16]time.Duration), busy: make(map[NodeID]time.Duration), moved: make(map[NodeID]time.Duration)}
}

// Decide returns commands for the leader: [Resize], [HandOver] and [MoveShard]. The caller asks about once a second. It returns none
// while any shard is copied, because that shifts the load.
func (b *Balancer) Decide(now time.Duration, s *State, l *Loads) []Command {
	if slices.ContainsFunc(s.Shards, func(shard Shard) bool { return shard.Learner != 0 || shard.FrozenFor != 0 }) {
		return nil
	}
	if commands := b.resize(now, s, l.Shards(now)); len(commands) > 0 {
		return commands
	}
	if commands := b.giveHeads(now, s); len(commands) > 0 {
		return commands
	}
	return b.move(now, s, l)
}

// rested reports whether the last change is long enough ago.
func rested[K comparable](last map[K]time.Duration, key K, now, coolDown time.Duration) bool {
	at, known := last[key]
	return !known || now-at >= coolDown
}

// lasting records since when a condition holds, and reports whether it has lasted long enough.
func lasting[K comparable](since map[K]time.Duration, key K, is bool, now, after time.Duration) bool {
	if !is {
		delete(since, key)
		return false
	}
	if _, known := since[key]; !known {
		since[key] = now
	}
	return now-since[key] >= after
}

// resize lengthens the chains of shards that are read much, the most read first, and shortens those that are not any more.
func (b *Balancer) resize(now time.Duration, s *State, rates []ShardRate) []Command {
	rate := make(map[uint16]Rate, len(rates))
	for _, r := range rates {
		rate[r.Shard] = r.Rate
	}
	var longer, shorter []Resize
	for i := range s.Shards {
		shard, n := &s.Shards[i], uint16(i)
		if lasting(b.hot, n, b.isHot(s, shard, rate[n]), now, b.options.After) && rested(b.changed, n, now, b.options.After) {
			longer = append(longer, Resize{n, shard.Extra + 1})
		}
		if less := s.tooLong(shard); lasting(b.over, n, less > 0, now, b.options.After) {
			shorter = append(shorter, Resize{n, shard.Extra - less})
		} else if lasting(b.calm, n, b.isCalm(s, shard, rate[n]), now, b.options.CoolDown) && rested(b.changed, n, now, b.options.CoolDown) {
			shorter = append(shorter, Resize{n, shard.Extra - 1})
		}
	}
	slices.SortStableFunc(longer, func(x, y Resize) int { return cmp.Compare(rate[y.Shard].Reads, rate[x.Shard].Reads) })
	var commands []Command
	for _, r := range append(longer, shorter...) {
		if len(commands) == b.options.AtOnce {
			break
		}
		b.changed[r.Shard] = now
		commands = append(commands, r)
	}
	return commands
}

// isHot reports whether one more member would help a shard.
func (b *Balancer) isHot(s *State, shard *Shard, r Rate) bool {
	return r.Reads > b.options.HotReads*float64(len(shard.Members)) && r.Reads >= minReads*r.Writes && s.canGrow(shard)
}

// tooLong returns the number of a shard's members for which there are no nodes any more.
func (s *State) tooLong(shard *Shard) uint8 {
	return uint8(min(int(shard.Extra), max(0, s.Settings.Replicas+int(shard.Extra)-s.up())))
}

// isCalm reports whether a shard does well with one member less.
func (b *Balancer) isCalm(s *State, shard *Shard, r Rate) bool {
	if shard.Extra == 0 {
		return false
	}
	rest := float64(s.Settings.Replicas + int(shard.Extra) - 1)
	return r.Reads < relief*b.options.HotReads*rest || r.Reads < minReads/2*r.Writes
}

// canGrow reports whether a chain that has all its members may have one more.
func (s *State) canGrow(shard *Shard) bool {
	want := s.Settings.Replicas + int(shard.Extra)
	return len(shard.Members) == want && shard.Learner == 0 && !shard.Lost && want < min(wire.MaxChain, s.up())
}

// up counts the nodes that chains are made of.
func (s *State) up() (n int) {
	for _, node := range s.Nodes {
		if node.Standing == Up {
			n++
		}
	}
	return n
}

// busyness compares the load of a node with its fair share.
type busyness struct {
	id     NodeID
	work   float64
	fair   float64 // of all work, by capacity
	shards int
	least  float64 // shards, beyond which placement would undo a move
	most   float64
}

// move moves a shard from the node with the most load for its capacity to the one with the least. Where placement would
// undo that, an idle shard moves the other way.
func (b *Balancer) move(now time.Duration, s *State, l *Loads) []Command {
	nodes := s.busyness(now, l)
	slices.SortFunc(nodes, func(x, y busyness) int {
		return cmp.Or(cmp.Compare(y.work/y.fair, x.work/x.fair), cmp.Compare(x.id, y.id))
	})
	for i := range nodes {
		from := &nodes[i]
		much := from.work > b.options.HotNode && from.work > busier*from.fair
		if !lasting(b.busy, from.id, much, now, b.options.After) || !rested(b.moved, from.id, now, b.options.CoolDown) {
			continue
		}
		for _, to := range slices.Backward(nodes[i+1:]) {
			if !rested(b.moved, to.id, now, b.options.CoolDown) {
				continue
			}
			if commands := b.exchange(now, s, l, from, &to); len(commands) > 0 {
				b.moved[from.id], b.moved[to.id] = now, now
				delete(b.busy, from.id)
				return commands
			}
		}
	}
	return nil
}

// exchange moves the shard that makes the loads of two nodes most alike. The target stays so much less busy than the
// source that the shard does not come back.
func (b *Balancer) exchange(now time.Duration, s *State, l *Loads, from, to *busyness) []Command {
	hot, work := b.best(now, s, from, to, func(shard uint16) (float64, bool) {
		work := l.at(from.id, shard)
		return work, calmer*(to.work+work)/to.fair < (from.work-work)/from.fair
	})
	if hot < 0 {
		return nil
	}
	commands := []Command{b.moveShard(now, s, hot, from.id, to.id)}
	if float64(from.shards-1) >= from.least && float64(to.shards+1) <= to.most {
		return commands
	}
	idle, _ := b.best(now, s, to, from, func(shard uint16) (float64, bool) {
		back := l.at(to.id, shard)
		return -back, back < work/4
	})
	if idle < 0 {
		delete(b.changed, uint16(hot))
		return nil
	}
	return append(commands, b.moveShard(now, s, idle, to.id, from.id))
}

func (b *Balancer) moveShard(now time.Duration, s *State, shard int, from, to NodeID) Command {
	b.changed[uint16(shard)] = now
	return MoveShard{Shard: uint16(shard), From: s.Nodes[from].Name, To: s.Nodes[to].Name}
}

// best returns the shard that may move and has the highest worth; -1: none has any.
func (b *Balancer) best(now time.Duration, s *State, from, to *busyness,
	worth func(shard uint16) (float64, bool)) (best int, most float64) {
	best, most = -1, math.Inf(-1)
	for i := range s.Shards {
		shard := &s.Shards[i]
		if !slices.Contains(shard.Members, from.id) || slices.Contains(shard.Members, to.id) || len(shard.Members) < 2 ||
			shard.Learner != 0 || shard.Lost || !rested(b.changed, uint16(i), now, b.options.CoolDown) || !s.apart(shard, from.id, to.id) {
			continue
		}
		if w, ok := worth(uint16(i)); ok && w > most {
			best, most = i, w
		}
	}
	return best, most
}

// busyness lists the nodes that reported and may have shards.
func (s *State) busyness(now time.Duration, l *Loads) []busyness {
	shards, places := make(map[NodeID]int), 0
	for i := range s.Shards {
		for _, id := range s.Shards[i].Members {
			shards[id]++
			places++
		}
	}
	var nodes []busyness
	work, capacity := 0.0, 0.0
	for id, n := range s.Nodes { // sums of whole numbers are the same in any order
		if rate, _, ok := l.Node(now, id); ok && n.Standing == Up {
			nodes = append(nodes, busyness{id: id, work: rate.sum(), shards: shards[id]})
			work += rate.sum()
			capacity += float64(max(n.Capacity, 1))
		}
	}
	for i := range nodes {
		part := float64(max(s.Nodes[nodes[i].id].Capacity, 1)) / capacity
		nodes[i].fair = max(part*work, math.SmallestNonzeroFloat32)
		nodes[i].least = math.Floor(part * float64(places) * (1 - topology.Slack))
		nodes[i].most = math.Ceil(part * float64(places) * (1 + topology.Slack))
	}
	return nodes
}

// apart reports whether a chain's members fail apart as well with node x in the place of y.
func (s *State) apart(shard *Shard, y, x NodeID) bool {
	label := s.Settings.Spread
	if label == "" || s.Nodes[y].Labels[label] == s.Nodes[x].Labels[label] {
		return true
	}
	return !slices.ContainsFunc(shard.Members, func(id NodeID) bool {
		return s.Nodes[id].Labels[label] == s.Nodes[x].Labels[label]
	})
}
