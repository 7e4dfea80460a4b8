package reconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

var errEnded = errors.New("this controller does not lead any more: ask the one that does")

// check returns the reason why a command cannot be carried out.
func (l *Leader) check(c Command) error {
	switch c := c.(type) {
	case Drain:
		return l.checkDrain(c.Node)
	case Undrain:
		return l.checkUndrain(c.Node)
	case Cordon:
		return l.checkCordon(c.Node)
	case Uncordon:
		r, err := l.named(c.Node)
		if err == nil && !r.Cordoned {
			err = fmt.Errorf("node %s is not drained because of a cordoned machine", c.Node)
		}
		return err
	case Remove:
		return l.checkRemove(c.Node)
	case Fail:
		r, err := l.named(c.Node)
		switch {
		case err != nil:
			return err
		case l.sinceHeartbeat(l.nodes[r.ID]) <= l.patience(l.nodes[r.ID]):
			return fmt.Errorf("node %s is heard: it has not failed; to take it out of its chains, drain it", c.Node)
		case r.Standing.Fenced() && len(l.nodes[r.ID].shards) == 0:
			return fmt.Errorf("node %s is in no chain any more", c.Node)
		}
		return nil
	case Replicas:
		switch up := len(l.usable(0)); {
		case c.Members < 1 || c.Members > wire.MaxChain:
			return fmt.Errorf("a chain has 1 to %d members, not %d", wire.MaxChain, c.Members)
		case c.Members > up && c.Members > l.state.Settings.Replicas:
			return fmt.Errorf("chains of %d members need as many nodes, and there are %d: let others join first", c.Members, up)
		}
		return nil
	case SetTimes:
		return c.Times.or(l.state.Settings.Times()).Check()
	case SetTags:
		return l.checkTagged(c.On)
	case SetControllers:
		return l.checkControllers(c.Set)
	case MoveShard:
		return l.checkMove(&c)
	case HandOver:
		return l.checkHandOver(&c)
	case Resize:
		if err := l.checkShard(c.Shard); err != nil {
			return err
		}
		if most := wire.MaxChain - l.state.Settings.Replicas; int(c.Extra) > most {
			return fmt.Errorf("shard %d can have %d members more than usual at most, not %d", c.Shard, most, c.Extra)
		}
		return nil
	case RaiseFloor:
		return l.checkFloor(c.Floor)
	case AcceptLoss:
		if err := l.checkShard(c.Shard); err != nil {
			return err
		}
		if !l.state.Shards[c.Shard].Lost {
			return fmt.Errorf("shard %d is not lost", c.Shard)
		}
		return nil
	}
	return fmt.Errorf("there is no command %T", c)
}

func (l *Leader) checkShard(number uint16) error {
	if int(number) >= len(l.shards) {
		return fmt.Errorf("there is no shard %d: the cluster has %d, from 0 on", number, len(l.shards))
	}
	return nil
}

func (l *Leader) named(name string) (*Node, error) {
	id, ok := l.names[name]
	if !ok {
		return nil, fmt.Errorf("there is no node %q", name)
	}
	r := l.state.Nodes[id]
	if r.Standing == Removed {
		return nil, fmt.Errorf("node %s was removed", name)
	}
	return r, nil
}

// CheckPlan returns the error with which [Leader.Operate] refuses a command. A node in use may be planned to be removed,
// if it may be drained, which comes before.
func (l *Leader) CheckPlan(c Command) error {
	if l.ended {
		return errEnded
	}
	remove, ok := c.(Remove)
	if !ok {
		return l.check(c)
	}
	r, err := l.named(remove.Node)
	if err != nil || r.Standing.Draining() {
		return err
	}
	return l.checkDrain(remove.Node)
}

// usable returns the nodes that chains can be made of, except one.
func (l *Leader) usable(without NodeID) []NodeID {
	return slices.DeleteFunc(sorted(l.state.Nodes), func(id NodeID) bool {
		return id == without || l.state.Nodes[id].Standing != Up
	})
}

func (l *Leader) checkDrain(name string) error {
	r, err := l.named(name)
	if err != nil {
		return err
	}
	switch {
	case r.Cordoned: // the operator takes the drain over
		return nil
	case r.Standing.Draining():
		return fmt.Errorf("node %s is being drained already", name)
	}
	return enough(name, len(l.usable(r.ID)), l.state.Settings.Replicas)
}

// enough returns an error if the nodes that are left without one are too few for chains of a length.
func enough(without string, left, want int) error {
	if left < want {
		return fmt.Errorf("without node %s there are %d nodes, and chains have %d members: let another join first, or want fewer replicas",
			without, left, want)
	}
	return nil
}

func (l *Leader) checkUndrain(name string) error {
	r, err := l.named(name)
	switch {
	case err != nil:
		return err
	case r.Cordoned:
		return fmt.Errorf("node %s is drained while its machine is cordoned: uncordon the machine, or drain the node first to take it over",
			name)
	case !r.Standing.Draining():
		return fmt.Errorf("node %s is not being drained", name)
	}
	return nil
}

// checkCordon is checkDrain, except that nothing takes a drain over.
func (l *Leader) checkCordon(name string) error {
	if r, err := l.named(name); err == nil && r.Cordoned {
		return fmt.Errorf("node %s is being drained already", name)
	}
	return l.checkDrain(name)
}

func (l *Leader) checkRemove(name string) error {
	r, err := l.named(name)
	if err != nil {
		return err
	}
	switch n := l.nodes[r.ID]; {
	case r.Standing == Up:
		return fmt.Errorf("node %s is in use: drain it first", name)
	case len(n.shards) > 0 && r.Standing.Fenced():
		return fmt.Errorf("node %s has the only copy of %d shards: start it again", name, len(n.shards))
	case len(n.shards) > 0:
		return fmt.Errorf("node %s is still in the chains of %d shards: wait until it is drained", name, len(n.shards))
	case r.Standing.Fenced() && !n.leaseOver:
		return fmt.Errorf("node %s was suspected just now: try again", name)
	case !r.Standing.Fenced() && (!n.known || len(n.has)+len(n.orders) > 0):
		return fmt.Errorf("node %s has not confirmed yet that it left all chains: try again", name)
	}
	return nil
}

func (l *Leader) checkMove(c *MoveShard) error {
	if err := l.checkShard(c.Shard); err != nil {
		return err
	}
	from, err := l.named(c.From)
	if err != nil {
		return err
	}
	to, err := l.named(c.To)
	if err != nil {
		return err
	}
	s := &l.state.Shards[c.Shard]
	switch {
	case !slices.Contains(s.Members, from.ID):
		return fmt.Errorf("node %s is not in the chain of shard %d", c.From, c.Shard)
	case slices.Contains(s.Members, to.ID) || s.FrozenFor == to.ID:
		return fmt.Errorf("node %s is in the chain of shard %d already", c.To, c.Shard)
	case to.Standing != Up:
		return fmt.Errorf("node %s cannot take shards: it is %v", c.To, to.Standing)
	case !l.rests(c.Shard):
		return fmt.Errorf("shard %d is changing now: try again", c.Shard)
	}
	return nil
}

// operate carries out the commands that arrived since the last change. It checks each again, because an earlier one may
// have made it invalid.
func (d *draft) operate() {
	l := d.l
	for _, c := range l.commands {
		if err := cmp.Or(l.check(c), d.check(c)); err != nil {
			l.emit(Event{fmt.Sprintf("a command is dropped: %v", err)})
			continue
		}
		switch c := c.(type) {
		case Drain:
			d.restand(c.Node, Draining, FencedDraining).Cordoned = false
		case Cordon:
			d.restand(c.Node, Draining, FencedDraining).Cordoned = true
		case Undrain:
			d.restand(c.Node, Up, Fenced)
		case Uncordon:
			d.restand(c.Node, Up, Fenced).Cordoned = false
		case Remove:
			d.node(l.names[c.Node]).Standing = Removed
		case Replicas:
			d.replicas = c.Members
		case SetTimes:
			d.times = c.Times.or(cmp.Or(d.times, l.state.Settings.Times()))
		case SetTags:
			d.tags = TagStep{Phase: l.state.Settings.Tags.Phase, On: c.On, Since: d.number}
		case SetControllers:
			d.setControllers(c.Set)
		case Fail:
			id := l.names[c.Node]
			l.suspect(l.nodes[id], byOperator)
			l.nodes[id].convicted, l.dirty = true, true
		case MoveShard:
			d.move(&c)
		case HandOver:
			d.handOver(&c)
		case Resize:
			d.shard(c.Shard).Extra = c.Extra
			l.replan(0)
		case RaiseFloor:
			for number := range l.state.Shards {
				if l.state.Shards[number].Floor < c.Floor && !d.touched(uint16(number)) {
					d.shard(uint16(number)).Floor = c.Floor
				}
			}
		case AcceptLoss:
			d.chain(c.Shard, nil, 0, 0)
			s := d.shard(c.Shard)
			s.Lost, s.Floor = false, NextLineage(s.Floor)
			l.replan(0)
		}
	}
	l.commands = nil
}

// byOperator is the reason to suspect a node that an operator declared failed.
const byOperator = "an operator said that it has failed"

// restand gives a node one standing if it is in good standing, and else another. It returns the draft's record.
func (d *draft) restand(name string, good, fenced Standing) *Node {
	n := d.node(d.l.names[name])
	if n.Standing.Fenced() {
		n.Standing = fenced
	} else {
		n.Standing = good
	}
	return n
}

// check returns an error if a command does not go with the rest of the same change: too few nodes would be left, or a
// node is suspected that it needs.
func (d *draft) check(c Command) error {
	switch c := c.(type) {
	case MoveShard:
		return d.checkUp(d.l.names[c.To])
	case HandOver:
		return d.checkUp(d.l.state.Shards[c.Shard].Members...)
	case Drain:
		return d.checkLeft(c.Node)
	case Cordon:
		return d.checkLeft(c.Node)
	}
	return nil
}

func (d *draft) checkUp(ids ...NodeID) error {
	for _, id := range ids {
		if standing := d.standing(id); standing != Up {
			return fmt.Errorf("node %s is %v: try again when it is back", d.l.name(id), standing)
		}
	}
	return nil
}

func (d *draft) checkLeft(name string) error {
	l := d.l
	if d.standing(l.names[name]).Draining() {
		return nil
	}
	left := len(slices.DeleteFunc(l.usable(l.names[name]), func(id NodeID) bool { return d.standing(id) != Up }))
	return enough(name, left, cmp.Or(d.replicas, l.state.Settings.Replicas))
}

func (d *draft) move(c *MoveShard) {
	l := d.l
	from, to := l.names[c.From], l.names[c.To]
	at := max(1, slices.Index(l.state.Shards[c.Shard].Members, from))
	l.work.asked = append(l.work.asked, topology.Move{Shard: c.Shard, Join: uint32(to), At: at, Leave: uint32(from), Why: topology.Level})
}
