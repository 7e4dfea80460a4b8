package reconfig

import (
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// repair is the rest of the last plan.
type repair struct {
	due     []time.Duration // when other plans are wanted, soonest first
	placing bool            // one is being made
	number  uint64

	moves     []topology.Move
	asked     []topology.Move // by operators: they come first
	fresh     []uint16        // shards that get their first chain
	after     [][]uint32
	began     bool // something of the plan was begun
	again     bool // shards were changing when it was made, which it leaves alone
	idlePlans int  // plans in a row of which no move could begin

	next time.Duration // when copies may begin again

	underReplicated, coLocated int
}

// planned handles a plan. If it left shards out, another plan follows.
func (l *Leader) planned(number uint64, p *topology.Plan) {
	w := &l.work
	if !w.placing || number != w.number {
		return
	}
	w.placing, l.dirty = false, true
	w.moves, w.fresh, w.after = p.Moves, p.New, p.After
	w.underReplicated, w.coLocated, w.began = p.UnderReplicated, p.CoLocated, false
	if w.again && len(p.Moves) == 0 {
		l.replan(20 * l.state.Settings.Heartbeat)
	}
}

// replan asks for another plan after some time.
func (l *Leader) replan(in time.Duration) {
	if at, planned := slices.BinarySearch(l.work.due, l.time+in); !planned {
		l.work.due = slices.Insert(l.work.due, at, l.time+in)
	}
}

// window is the number of moves that one step looks at. It bounds the cost of moves that cannot begin now, and is large
// enough to find others behind them.
const window = 256

// checkPlacement asks for a plan when it is time, and tries moves again that could not begin.
func (l *Leader) checkPlacement() {
	w := &l.work
	if len(w.moves)+len(w.asked)+len(w.fresh)+len(l.trims)+len(l.keepers)+len(l.completed) > 0 {
		l.dirty = true
	}
	if len(w.due) == 0 || w.placing || l.time < w.due[0] || l.storing {
		return
	}
	later, _ := slices.BinarySearch(w.due, l.time+1)
	w.due = slices.Delete(w.due, 0, later)
	nodes := l.candidates()
	if l.forming() && len(nodes) < l.options.FormWith {
		return // until another joins
	}
	w.placing = true
	w.number++
	l.emit(Place{Number: w.number, nodes: nodes, spread: l.state.Settings.Spread, chains: l.chains()})
}

// forming reports whether no shard has a chain yet.
func (l *Leader) forming() bool {
	return !slices.ContainsFunc(l.state.Shards, func(s Shard) bool { return s.Epoch != 0 })
}

// candidates returns the nodes that chains may be made of. Nodes with failed copies have less weight.
func (l *Leader) candidates() []topology.Candidate {
	const unit = 16
	var candidates []topology.Candidate
	for _, id := range sorted(l.state.Nodes) {
		n, r := l.nodes[id], l.state.Nodes[id]
		if r.Standing == Up && l.time >= n.distrust && (len(n.shards) > 0 || l.inPhase(n)) {
			capacity := max(1, r.Capacity) * unit >> min(n.failures, 4)
			candidates = append(candidates, topology.Candidate{ID: uint32(id), Name: r.Name, Labels: r.Labels, Capacity: capacity})
		}
	}
	return candidates
}

// chains returns the chains that the plan starts from. Chains that are changing now stay as they are.
func (l *Leader) chains() []topology.Chain {
	chains := make([]topology.Chain, len(l.state.Shards))
	l.work.again = false
	for number := range chains {
		s, c := &l.state.Shards[number], &chains[number]
		for _, id := range s.Members {
			c.Members = append(c.Members, uint32(id))
		}
		if s.FrozenFor != 0 {
			c.Members = append(c.Members, uint32(s.FrozenFor))
		}
		c.Want, c.Extra = l.members(s), int(s.Extra)
		if c.Fixed = s.Lost || len(s.Members) > 0 && !l.rests(uint16(number)); c.Fixed {
			l.work.again = l.work.again || l.reachable(s)
		}
	}
	return chains
}

// reachable reports whether a shard has a complete copy on a node in good standing.
func (l *Leader) reachable(s *Shard) bool {
	return slices.ContainsFunc(s.Members, func(id NodeID) bool { return id != s.Learner && !l.state.Nodes[id].Standing.Fenced() })
}

// members returns the number of members that a shard's chain should have.
func (l *Leader) members(s *Shard) int {
	return min(l.state.Settings.Replicas+int(s.Extra), wire.MaxChain)
}

// rests reports whether a shard's chain is active and no change of it is under way.
func (l *Leader) rests(number uint16) bool {
	s, run := &l.state.Shards[number], &l.shards[number]
	if !run.active || s.Learner != 0 || s.FrozenFor != 0 {
		return false
	}
	return !slices.ContainsFunc(s.Members, func(id NodeID) bool {
		n := l.nodes[id]
		h := n.has[number]
		return h.epoch != s.Epoch || h.state != chain.Active || h.learner || l.state.Nodes[id].Standing.Fenced()
	})
}

// begin begins moves, as many as may be under way at a time.
func (d *draft) begin() {
	w := &d.l.work
	w.asked = d.beginSome(w.asked)
	left := len(w.moves)
	w.moves = d.beginSome(w.moves)
	if left == 0 || len(w.moves) > 0 {
		return
	}
	if w.began { // see whether that was all
		w.idlePlans = 0
	} else {
		w.idlePlans++
	}
	d.l.replan(d.l.backOff(min(w.idlePlans, maxIdlePlans)))
}

// maxIdlePlans bounds the idle plans that lengthen the pause before the next plan.
const maxIdlePlans = 4

// verdict is the outcome of an attempt to begin a move.
type verdict uint8

const (
	later verdict = iota
	begun
	pointless
)

// beginSome begins some of moves and returns the rest.
func (d *draft) beginSome(moves []topology.Move) []topology.Move {
	l := d.l
	paced := l.time < l.work.next
	seen := min(window, len(moves))
	rest := make([]topology.Move, 0, seen)
	for i, m := range moves[:seen] {
		if m.Join != 0 && paced {
			rest = append(rest, moves[i:seen]...)
			break
		}
		switch d.beginMove(m) {
		case begun:
			l.work.began = true
			if m.Join != 0 {
				l.work.next = l.time + l.options.Pace
			}
		case later:
			rest = append(rest, m)
		}
	}
	if len(rest) == seen {
		return moves
	}
	return append(rest, moves[seen:]...)
}

// beginMove does the first half of a move, in which a node joins, or all of it if a node only leaves.
func (d *draft) beginMove(m topology.Move) verdict {
	l := d.l
	if int(m.Shard) >= len(l.shards) || len(l.state.Shards[m.Shard].Members) == 0 {
		return pointless
	}
	if d.touched(m.Shard) || !l.rests(m.Shard) {
		return later
	}
	s := &l.state.Shards[m.Shard]
	if !l.agentsReady(m.Shard) {
		return later
	}
	join, leave := NodeID(m.Join), NodeID(m.Leave)
	if leave != 0 && !slices.Contains(s.Members, leave) {
		leave = 0
	}
	if join == 0 || slices.Contains(s.Members, join) {
		return d.dismiss(m.Shard, leave)
	}
	if n := l.nodes[join]; n == nil || d.standing(join) != Up {
		return pointless
	}
	if len(s.Members) >= wire.MaxChain {
		if d.dismiss(m.Shard, leave) == pointless {
			return pointless
		}
		return later
	}
	at := min(max(m.At, 1), len(s.Members)-1)
	source := s.Members[at] // the successor, as it will be
	if !d.mayJoin(join, source, m.Shard) {
		return later
	}
	if len(s.Members) == 1 {
		d.chain(m.Shard, s.Members, 0, join)
	} else {
		d.chain(m.Shard, slices.Insert(slices.Clone(s.Members), at, join), join, 0)
	}
	d.leaving[m.Shard] = leave
	l.nodes[join].copyTarget[m.Shard], l.nodes[source].copySource[m.Shard] = source, join // as it will be
	d.joining[join] = true
	return begun
}

// dismiss removes a member that the chain does not need.
func (d *draft) dismiss(number uint16, leave NodeID) verdict {
	s := &d.l.state.Shards[number]
	if leave == 0 || len(s.Members)-1 < max(1, d.l.members(s)) {
		return pointless
	}
	d.chain(number, slices.DeleteFunc(slices.Clone(s.Members), func(id NodeID) bool { return id == leave }), 0, 0)
	return begun
}

// mayJoin reports whether a node may begin to copy a shard from another now. A node begins many copies at a time, and the
// next ones when all are complete, because a source scans its whole store once for each batch to a node.
func (d *draft) mayJoin(join, source NodeID, number uint16) bool {
	l := d.l
	n := l.nodes[join]
	if len(n.copyTarget) > 0 && !d.joining[join] {
		return false
	}
	return l.time-n.lastSeen <= l.state.Settings.Suspect && l.agentHeard(n) && l.time >= n.rests && !n.mayHave(number) &&
		l.mayCopy(n, source) && l.mayCopy(l.nodes[source], join)
}

// mayCopy reports whether the limits allow a node one more copy, from or to another.
func (l *Leader) mayCopy(n *node, other NodeID) bool {
	if len(n.copyTarget)+len(n.copySource) >= l.options.LearnNode {
		return false
	}
	peers := make(map[NodeID]bool)
	for _, copies := range []map[uint16]NodeID{n.copyTarget, n.copySource} {
		for _, peer := range copies {
			peers[peer] = true
		}
	}
	return peers[other] || len(peers) < l.options.LearnPeers
}

// form makes the first chains of shards.
func (d *draft) form() {
	l, w := d.l, &d.l.work
	var rest []uint16
	for _, number := range w.fresh {
		s := &l.state.Shards[number]
		if d.touched(number) || len(s.Members) > 0 || s.Lost {
			continue
		}
		var members []NodeID
		for _, id := range w.after[number] {
			members = append(members, NodeID(id))
		}
		if slices.ContainsFunc(members, func(id NodeID) bool { return d.standing(id) != Up }) {
			l.replan(0)
			return
		}
		if len(members) == 0 || slices.ContainsFunc(members, func(id NodeID) bool { return l.nodes[id].mayHave(number) }) {
			rest = append(rest, number)
			continue
		}
		d.chain(number, members, 0, 0)
		s = d.shard(number)
		s.Fresh, s.Born = true, s.Epoch
	}
	if w.fresh = rest; len(rest) > 0 && l.forming() {
		for _, number := range sorted(d.shards) {
			delete(d.shards, number) // all at once
		}
		w.fresh = nil
		l.replan(l.state.Settings.Heartbeat)
	}
}
