package reconfig

import (
	"errors"
	"fmt"
	"slices"
)

// CheckInvariants returns an error if the leader is in a state that no events lead to while all rules are on. Tests and
// simulations call it: it looks at everything. A leader that has ended may be in any state.
func (l *Leader) CheckInvariants() error {
	if l.ended || l.options.Without != 0 {
		return nil
	}
	switch {
	case l.storing && (l.draft == nil || l.change.Number != l.state.Change+1):
		return fmt.Errorf("change %d is under way after %d", l.change.Number, l.state.Change)
	case l.lastSeen > l.time || l.listened > l.time:
		return fmt.Errorf("at %v it saw a node at %v, and listened for %v", l.time, l.lastSeen, l.listened)
	}
	for _, wait := range l.leaseWaits {
		if wait.change > l.state.Change {
			return fmt.Errorf("it waits for leases of change %d after %d", wait.change, l.state.Change)
		}
	}
	if err := l.checkNodes(); err != nil {
		return err
	}
	var counted counts
	for number := range l.shards {
		if err := l.checkFound(uint16(number), &counted); err != nil {
			return fmt.Errorf("shard %d: %w", number, err)
		}
	}
	has := l.indexed()
	if l.storing {
		has.copies = min(has.copies, counted.copies) // those that the change begins are counted in nodes
	}
	if has != counted {
		return fmt.Errorf("nodes' shards, copies, leavers and keepers are %+v, and in shards %+v", has, counted)
	}
	return nil
}

// checkNodes checks that each node of the state is known once, by its name, and is in the leader's indexes.
func (l *Leader) checkNodes() error {
	if len(l.nodes) != len(l.state.Nodes) || len(l.names) != len(l.nodes) {
		return fmt.Errorf("%d nodes by %d names, and %d are stored", len(l.nodes), len(l.names), len(l.state.Nodes))
	}
	most, least, timeouts := 0, 0, 0
	for id, r := range l.state.Nodes {
		n := l.nodes[id]
		if n == nil || n.id != id || l.names[r.Name] != id {
			return fmt.Errorf("node %d is not known as %s", id, r.Name)
		}
		if err := l.checkNode(n, r); err != nil {
			return fmt.Errorf("node %s: %w", r.Name, err)
		}
		if !n.counted {
			most++
		}
		if !n.counted && r.Standing != Removed {
			least++
		}
		if n.timeout != nil {
			timeouts++
		}
	}
	switch {
	case l.unaccounted < least || l.unaccounted > most:
		return fmt.Errorf("%d nodes count as unaccounted, and %d to %d are", l.unaccounted, least, most)
	case l.byHeartbeat.Len() != timeouts:
		return fmt.Errorf("%d heartbeats are waited for, of %d nodes", l.byHeartbeat.Len(), timeouts)
	}
	return nil
}

func (l *Leader) checkNode(n *node, r *Node) error {
	fenced := r.Standing.Fenced()
	switch {
	case fenced == (n.timeout != nil):
		return fmt.Errorf("standing %d, and it has a heartbeat timeout: %v", r.Standing, n.timeout != nil)
	case n.leaseOver && (!fenced || len(n.left) > 0):
		return fmt.Errorf("standing %d without a lease, and %d shards that it may serve", r.Standing, len(n.left))
	case !n.known && len(n.has)+len(n.orders) > 0:
		return fmt.Errorf("%d configurations and %d orders before its inventory", len(n.has), len(n.orders))
	case len(n.orders) > 0 && l.busy[n.id] != n && r.Standing != Removed:
		return fmt.Errorf("%d orders, and it is not waited for", len(n.orders))
	case n.lastSeen > l.time:
		return fmt.Errorf("seen at %v, which is to come", n.lastSeen)
	case l.claims[n.id] != nil && n.registration == nil:
		return errors.New("a claim without a registration")
	case (len(n.kept) > 0) != l.keepers[n.id]:
		return fmt.Errorf("it keeps %d shards, and counts as one that does: %v", len(n.kept), l.keepers[n.id])
	}
	for number, o := range n.orders {
		if o.number > n.number || o.number == 0 && l.unsent[n.id] != n {
			return fmt.Errorf("shard %d: order %d of %d, and the next is not waited for", number, o.number, n.number)
		}
	}
	return nil
}

// counts has the numbers of entries that are indexed both by node and by shard.
type counts struct{ shards, copies, left, kept int }

func (l *Leader) indexed() (c counts) {
	for _, n := range l.nodes {
		c.shards += len(n.shards)
		c.copies += len(n.copyTarget) + len(n.copySource)
		c.left += len(n.left)
		c.kept += len(n.kept)
	}
	c.copies += len(l.copying)
	return c
}

// checkFound checks that a shard is found in its nodes, and counts how often.
func (l *Leader) checkFound(number uint16, c *counts) error {
	s, run := &l.state.Shards[number], &l.shards[number]
	if err := s.check(); err != nil {
		return err
	}
	in := slices.Clone(s.Members)
	if s.FrozenFor != 0 {
		in = append(in, s.FrozenFor)
	}
	for _, id := range in {
		if !l.nodes[id].shards[number] {
			return fmt.Errorf("node %d is in its chain, and does not have it", id)
		}
	}
	c.shards += len(in)
	if run.learner != max(s.Learner, s.FrozenFor) {
		return fmt.Errorf("node %d copies it, not %d", max(s.Learner, s.FrozenFor), run.learner)
	}
	if run.learner != 0 {
		c.copies += 3
		to, from := l.nodes[run.learner], l.nodes[run.source]
		if from == nil || to.copyTarget[number] != run.source || from.copySource[number] != run.learner ||
			!l.copying[number] {
			return fmt.Errorf("the copy from node %d to %d is not counted at both", run.source, run.learner)
		}
	}
	if run.active && (len(run.outside) > 0 || !run.clear) {
		return fmt.Errorf("it is active, and nodes %v may serve an older epoch", run.outside) // C1
	}
	for _, id := range run.outside {
		if !l.nodes[id].left[number] {
			return fmt.Errorf("node %d may serve it, and has not left it", id)
		}
	}
	for _, id := range run.keepers {
		if !l.nodes[id].kept[number] {
			return fmt.Errorf("node %d keeps it, and does not have it", id)
		}
	}
	c.left += len(run.outside)
	c.kept += len(run.keepers)
	return nil
}
