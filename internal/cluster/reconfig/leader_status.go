package reconfig

import (
	"cmp"
	"fmt"
	"time"
)

// String is the standing in words.
func (s Standing) String() string {
	switch s {
	case Up:
		return "up"
	case Draining:
		return "draining"
	case Fenced:
		return "suspected"
	case Removed:
		return "removed"
	case FencedDraining:
		return "suspected while draining"
	}
	return fmt.Sprintf("standing %d", uint8(s))
}

// Status returns the state of nodes and shards. Its cost grows with the number of shards.
func (l *Leader) Status() Status {
	status := Status{Copied: l.copied, Moves: len(l.work.moves) + len(l.work.asked), TagsAwaited: l.awaitedNames()}
	if l.state.Controllers.Joining.Address != "" || !l.settled {
		status.Awaited = l.controllersAwaited()
	}
	heads := make(map[NodeID]int)
	lost := 0
	for number := range l.state.Shards {
		s := &l.state.Shards[number]
		if len(s.Members) > 0 {
			heads[s.Members[0]]++
		}
		if s.Learner != 0 || s.FrozenFor != 0 {
			status.Copying++
			if run := &l.shards[number]; l.nodes[run.learner].kept[uint16(number)] {
				status.Catching++
			}
		}
		if s.Lost {
			lost++
		}
		l.countShard(&status, uint16(number))
	}
	var troubles []string
	for _, id := range sorted(l.state.Nodes) {
		n, r := l.nodes[id], l.state.Nodes[id]
		if r.Standing == Removed {
			continue
		}
		trouble := l.trouble(n, r)
		if trouble != "" {
			troubles = append(troubles, fmt.Sprintf("node %s: %s", r.Name, trouble))
		}
		status.Nodes = append(status.Nodes, NodeStatus{
			ID: id, Heads: heads[id], Shards: len(n.shards), Learning: len(n.copyTarget), Silent: max(0, l.time-n.lastSeen), Trouble: trouble,
		})
	}
	status.Notes = append(l.notes(&status, lost), troubles...)
	return status
}

// countShard counts a shard by its availability to clients.
func (l *Leader) countShard(status *Status, number uint16) {
	s, run := &l.state.Shards[number], &l.shards[number]
	complete, up := 0, 0
	for _, id := range s.Members {
		if id != s.Learner {
			complete++
			if !l.state.Nodes[id].Standing.Fenced() {
				up++
			}
		}
	}
	switch {
	case up == 0:
		status.Down++
	case !run.active || s.FrozenFor != 0:
		status.Changing++
	case complete < l.members(s):
		status.UnderReplicated++
	default:
		status.FullyReplicated++
	}
}

// trouble returns the reason why a node does not work as it should, for operators; empty: it does.
func (l *Leader) trouble(n *node, r *Node) string {
	switch {
	case l.claims[n.id] != nil:
		return "another process says that it is this node: is it started twice?"
	case r.Standing.Fenced() && n.refused != "" && l.returning(n.id):
		return n.refused
	case r.Standing.Fenced() && l.doubt(n) != "":
		return l.doubt(n)
	case r.Standing.Fenced() && len(n.shards) > 0:
		return fmt.Sprintf("it is silent, and has the only copy of %d shards: start it again", len(n.shards))
	case r.Standing.Fenced():
		return "it is silent, or has not left its chains yet"
	}
	if away := l.away(n); l.direct(n) && away > l.state.Settings.outage() {
		return fmt.Sprintf("its agent is silent for %v; its data plane serves, and takes no new shards", away.Round(100*time.Millisecond))
	}
	return cmp.Or(n.refused, l.failing(n), l.distrusted(n))
}

// failing returns why a node could not complete a copy, and when it gets another one.
func (l *Leader) failing(n *node) string {
	if left := n.rests - l.time; n.failure != "" && left > 0 {
		return fmt.Sprintf("%s (failed %d times); it gets the next copy in %v", n.failure, n.failures, left.Round(100*time.Millisecond))
	}
	return n.failure
}

// notes returns messages for operators, the most urgent first.
func (l *Leader) notes(status *Status, lost int) []string {
	var notes []string
	note := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	up := len(l.usable(0))
	if l.forming() {
		note(true, "waiting for nodes: %d of %d have joined", up, l.options.FormWith)
		return notes
	}
	note(lost > 0, "%d shards are lost: every complete copy is gone; `accept-loss` lets them start anew, empty", lost)
	note(status.Down > lost, "%d shards cannot be reached: no node with a complete copy is there", status.Down-lost)
	note(up < l.state.Settings.Replicas, "chains should have %d members, and %d nodes can take shards: let others join",
		l.state.Settings.Replicas, up)
	note(l.work.underReplicated > 0 && up >= l.state.Settings.Replicas,
		"%d shards would be short of members even after all moves", l.work.underReplicated)
	note(l.work.coLocated > 0, "%d shards have members with the same %s: too few of those differ",
		l.work.coLocated, cmp.Or(l.state.Settings.Spread, "label"))
	return append(notes, l.state.headsNotes()...)
}
