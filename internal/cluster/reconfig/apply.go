package reconfig

import (
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// Apply applies a change to the state. It checks nothing: see [State.Check].
func (s *State) Apply(c Change) {
	for i := range c.Nodes {
		n := c.Nodes[i]
		s.Nodes[n.ID] = &n
	}
	for shard, next := range c.Shards {
		s.Shards[shard] = next
	}
	if c.Replicas != 0 {
		s.Settings.Replicas = c.Replicas
	}
	if c.Times != (Times{}) {
		s.Settings.SetTimes(c.Times)
	}
	if c.Tags != (TagStep{}) {
		s.Settings.Tags = c.Tags
	}
	if c.Controllers.Since != 0 {
		s.Controllers = c.Controllers
	}
	s.Change = c.Number
}

// Check returns an error if a change is not valid as the next one of this state.
func (s *State) Check(c Change) error {
	if c.Number != s.Change+1 {
		return fmt.Errorf("it has number %d, after %d", c.Number, s.Change)
	}
	if c.Replicas < 0 || c.Replicas > wire.MaxChain {
		return fmt.Errorf("chains of %d members", c.Replicas)
	}
	if c.Times != (Times{}) {
		if err := c.Times.Check(); err != nil {
			return err
		}
	}
	if err := c.Tags.follows(s.Settings.Tags, c.Number); err != nil {
		return err
	}
	if err := c.Controllers.follows(&s.Controllers, c.Number); err != nil {
		return err
	}
	known := make(map[NodeID]bool, len(c.Nodes))
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if err := s.checkNode(n); err != nil {
			return fmt.Errorf("node %d: %w", n.ID, err)
		}
		known[n.ID] = true
	}
	for _, number := range sorted(c.Shards) {
		if int(number) >= len(s.Shards) {
			return fmt.Errorf("there is no shard %d", number)
		}
		next := c.Shards[number]
		if err := next.follows(&s.Shards[number]); err != nil {
			return fmt.Errorf("shard %d: %w", number, err)
		}
		for _, id := range append(slices.Clone(next.Members), next.FrozenFor) {
			if id != 0 && s.Nodes[id] == nil && !known[id] {
				return fmt.Errorf("shard %d: there is no node %d", number, id)
			}
		}
	}
	return nil
}

func (s *State) checkNode(n *Node) error {
	old := s.Nodes[n.ID]
	switch {
	case n.ID == 0 || n.Name == "" || n.Incarnation == 0:
		return errors.New("it has no ID, name or incarnation")
	case n.Standing < Up || n.Standing > FencedDraining:
		return fmt.Errorf("it has standing %d", n.Standing)
	case old == nil:
		return nil
	case old.Name != n.Name:
		return fmt.Errorf("it is called %s, and not %s", old.Name, n.Name)
	case old.Standing == Removed && n.Standing != Removed:
		return errors.New("it was removed")
	case old.Incarnation != n.Incarnation && !old.Standing.Fenced():
		return errors.New("another incarnation without being fenced first")
	case n.FencedBy < old.FencedBy:
		return errors.New("its fence is older than the last")
	}
	return nil
}

// follows checks that a shard's new state may come after the old one.
func (s *Shard) follows(old *Shard) error {
	if s.Floor < old.Floor || s.Bar < old.Bar || s.Bar > s.Floor || s.Swept < old.Swept || s.Swept > s.Epoch {
		return fmt.Errorf("floor %d, bar %d, after %d and %d", s.Floor, s.Bar, old.Floor, old.Bar)
	}
	same := slices.Equal(s.Members, old.Members) && s.FrozenFor == old.FrozenFor && s.Lost == old.Lost && s.Fresh == old.Fresh
	if s.Epoch == old.Epoch && same && (s.Learner == old.Learner || s.Learner == 0) {
		return nil
	}
	if s.Epoch <= old.Epoch {
		return fmt.Errorf("another chain without a higher epoch than %d", old.Epoch)
	}
	return s.check()
}

// check checks a shard by itself.
func (s *Shard) check() error {
	at := slices.Index(s.Members, s.Learner)
	switch {
	case len(s.Members) > wire.MaxChain:
		return fmt.Errorf("%d members, and there may be %d", len(s.Members), wire.MaxChain)
	case s.Lost && len(s.Members) > 0:
		return errors.New("it is lost and has members")
	case s.Learner != 0 && (at < 1 || at > len(s.Members)-2):
		return fmt.Errorf("its learner has place %d of %d", at, len(s.Members))
	case s.FrozenFor != 0 && (len(s.Members) != 1 || s.Members[0] == s.FrozenFor):
		return errors.New("only a chain of one is frozen, for another node")
	}
	for i, id := range s.Members {
		if id == 0 || slices.Contains(s.Members[:i], id) {
			return fmt.Errorf("node %d stands twice, or is none", id)
		}
	}
	return nil
}
