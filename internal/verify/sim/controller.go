package sim

import (
	"fmt"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

const (
	repeatLeaseWait = 10 * time.Millisecond
	longestPlan     = 5 * time.Millisecond
	longestLoad     = 5 * time.Millisecond
)

// controller does the work of internal/cluster/controller around a reconfig.Grantor and, if it leads, a
// reconfig.Leader.
type controller struct {
	w       *world
	number  int
	clock   clock
	alive   bool
	process uint64 // counts starts
	paused  uint64 // until when it does nothing

	storeAway uint64 // until when it does not reach the store
	state     *reconfig.State
	applied   int // changes of the store that are in state
	grantor   *reconfig.Grantor
	leader    *reconfig.Leader
	connected map[reconfig.NodeID]*agent // agents of registered nodes
	hearts    map[reconfig.NodeID]*heart
	lastSeen  map[reconfig.NodeID]uint64 // when the leader last received a node's heartbeat
	leads     uint64                     // since when
	calls     uint64                     // of leaders
}

func newController(w *world, number int) *controller {
	return &controller{w: w, number: number, clock: w.newClock(w.stream(uint64(40 + number)))}
}

func controllerName(number int) string { return fmt.Sprintf("controller %d", number) }

func (c *controller) endpoint() endpoint { return firstController + endpoint(c.number) }
func (c *controller) name() string       { return controllerName(c.number) }

// time is the controller's clock, which does not go back.
func (c *controller) time() time.Duration { return time.Duration(c.clock.show(c.w.now)) }

// able reports whether it could lead.
func (c *controller) able() bool {
	return c.alive && c.grantor != nil && c.w.now >= c.paused && c.w.now >= c.storeAway
}

// start begins a process, which reads the state as soon as it can.
func (c *controller) start() {
	if c.alive {
		return
	}
	c.alive, c.connected, c.hearts = true, make(map[reconfig.NodeID]*agent), make(map[reconfig.NodeID]*heart)
	c.process++
	process := c.process
	c.w.events.push(max(c.w.now, c.storeAway)+c.w.store.within(longestLoad), func() {
		if process != c.process || !c.alive {
			return
		}
		c.state, c.applied = c.w.store.copy(), len(c.w.store.changes)
		c.grantor = reconfig.NewGrantor(c.state, c.name(), c.time(), c.w.Without.Control)
		c.askAll(process)
	})
}

func (c *controller) crash() {
	c.w.note(every, every, "%s crashes", c.name())
	c.alive, c.grantor, c.leader, c.paused = false, nil, nil, 0
	for _, n := range c.w.nodes { // connections break
		if n.agent != nil {
			n.agent.connected[c.number] = false
		}
	}
}

// soon does something when the controller can, if it is the same process then.
func (c *controller) soon(do func()) {
	process := c.process
	switch {
	case !c.alive || c.grantor == nil:
	case c.w.now < c.paused:
		c.w.events.push(c.paused, func() {
			if process == c.process {
				c.soon(do)
			}
		})
	default:
		do()
	}
}

// apply applies changes of the store, up to a number of them.
func (c *controller) apply(process uint64, until int) {
	if process != c.process {
		return
	}
	c.soon(func() {
		for ; c.applied < until; c.applied++ {
			change := c.w.store.changes[c.applied]
			c.state.Apply(change)
			c.grantor.Apply(change)
		}
	})
}

// views returns the controller's maps for clients.
func (c *controller) views() []view {
	if c.state == nil {
		return nil
	}
	views := make([]view, c.w.Shards)
	for shard := range views {
		s := &c.state.Shards[shard]
		views[shard].epoch = s.Epoch
		for _, id := range s.Members {
			views[shard].members = append(views[shard].members, c.state.Nodes[id].Addr)
		}
	}
	return views
}

// lead begins a term.
func (c *controller) lead(term uint64) {
	c.leader = nil
	state := c.w.store.copy()
	first := reconfig.Change{Number: state.Change + 1} // the last write of an earlier leader counts from here
	c.w.store.write(c, term, first, func(ok bool) {
		c.soon(func() {
			if !ok || c.leader != nil && c.leader.Term() > term {
				return
			}
			state := c.w.store.copy()
			c.lastSeen, c.leads = make(map[reconfig.NodeID]uint64), c.w.now
			c.leader = reconfig.NewLeader(term, state, c.w.leaderOptions(), c.time())
			c.leading(c.leader, func(time.Duration) {})
		})
	})
}

// resign ends a leadership that another controller has taken.
func (c *controller) resign(l *reconfig.Leader) {
	if l != nil && c.leader == l {
		c.w.note(every, every, "%s finds out that its term %d is over", c.name(), l.Term())
		c.leader = nil
	}
}

// leading runs do if l is still this controller's leader, then performs the leader's effects, and calls it again when
// its rest is over.
func (c *controller) leading(l *reconfig.Leader, do func(now time.Duration)) {
	c.soon(func() {
		if l == nil || c.leader != l {
			return
		}
		do(c.time())
		l.Tick(c.time())
		for _, e := range l.Effects() {
			c.effect(l, e)
		}
		if l.Ended() {
			c.resign(l)
		}
		if c.calls++; c.calls%checkedEvery == 0 {
			if err := l.CheckInvariants(); err != nil {
				c.w.broken(every, every, "%s: %v", c.name(), err)
			}
		}
		calls := c.calls
		c.w.after(c.clock.takes(l.Rest()), func() {
			if calls == c.calls {
				c.leading(l, func(time.Duration) {})
			}
		})
	})
}

func (c *controller) effect(l *reconfig.Leader, e reconfig.Effect) {
	switch e := e.(type) {
	case reconfig.Store:
		c.w.watch.proposed(c, &e.Change)
		c.w.store.write(c, l.Term(), e.Change, func(ok bool) {
			c.leading(l, func(now time.Duration) { l.Stored(now, e.Change.Number, ok) })
		})
	case reconfig.Send:
		c.order(e)
	case reconfig.LeaseWait:
		for _, other := range c.w.controllers {
			c.askLeaseLeft(l, e, other, new(bool))
		}
	case reconfig.Place:
		c.w.after(c.w.store.within(longestPlan), func() {
			plan := e.Plan()
			c.leading(l, func(now time.Duration) { l.Planned(now, e.Number, plan) })
		})
	case reconfig.Probe:
		c.probe(l, e)
	case reconfig.Release:
		if a := c.connected[e.Node]; a != nil {
			c.w.net.carry(control, c.endpoint(), a.n.endpoint(), func(bool) { a.soon(func() { a.released(e.Term) }) })
		}
	case reconfig.Event:
		c.w.note(every, every, "%s: %s", c.name(), e.Text)
	}
}

// order sends an order on the node's connection to this controller, so a machine that restarted does not receive orders
// from before the restart.
func (c *controller) order(e reconfig.Send) {
	if a := c.connected[e.Node]; a != nil {
		c.w.net.carry(control, c.endpoint(), a.n.endpoint(), func(bool) { a.soon(func() { a.order(e.Order) }) })
	}
}

// probe lets other nodes look whether they reach one: a message to its data plane, and its answer.
func (c *controller) probe(l *reconfig.Leader, p reconfig.Probe) {
	target := c.w.nodeOf(p.Node)
	for _, id := range p.Through {
		a := c.connected[id]
		if a == nil || target == nil {
			continue
		}
		reached := func(bool) { c.leading(l, func(now time.Duration) { l.Reached(now, p.Node) }) }
		back := func(damaged bool) {
			if !damaged {
				a.soon(func() { c.w.net.carry(control, a.n.endpoint(), c.endpoint(), reached) })
			}
		}
		there := func(damaged bool) {
			if target.alive() && !damaged {
				c.w.net.carry(data, target.endpoint(), a.n.endpoint(), back)
			}
		}
		c.w.net.carry(control, c.endpoint(), a.n.endpoint(), func(bool) {
			a.soon(func() { c.w.net.carry(data, a.n.endpoint(), target.endpoint(), there) })
		})
	}
}

// askLeaseLeft asks a controller until it has answered.
func (c *controller) askLeaseLeft(l *reconfig.Leader, f reconfig.LeaseWait, other *controller, answered *bool) {
	if *answered || c.leader != l {
		return
	}
	answer := func(left time.Duration) {
		c.leading(l, func(now time.Duration) {
			if !*answered {
				*answered = true
				l.LeaseLeft(now, other.name(), f.Change, left)
			}
		})
	}
	ask := func(bool) {
		other.soon(func() {
			left, ok := other.grantor.LeaseLeft(other.time(), f.Change, f.Nodes)
			if ok {
				c.w.net.carry(control, other.endpoint(), c.endpoint(), func(bool) { answer(left) })
			}
		})
	}
	if other == c {
		c.w.after(0, func() { ask(false) })
	} else {
		c.w.net.carry(control, c.endpoint(), other.endpoint(), ask)
	}
	c.w.after(c.clock.takes(repeatLeaseWait), func() { c.soon(func() { c.askLeaseLeft(l, f, other, answered) }) })
}

// Messages of nodes.

func (c *controller) register(a *agent, h reconfig.Registration) {
	c.leading(c.leader, func(now time.Duration) {
		if err := c.leader.Register(now, h); err != nil {
			c.w.note(every, every, "%s refuses %s: %v", c.name(), h.Name, err)
		}
	})
	process := c.process
	welcome := func(id reconfig.NodeID) {
		if c.process == process && c.alive { // else the connection is broken
			a.welcome(c, id)
		}
	}
	c.soon(func() {
		for id, n := range c.state.Nodes {
			if n.Name == h.Name && n.Incarnation == h.Incarnation && a.n.agent == a { // else the connection is broken
				c.connected[id] = a
				c.w.net.carry(control, c.endpoint(), a.n.endpoint(), func(bool) { a.soon(func() { welcome(id) }) })
			}
		}
	})
}

// departed notes that the connection of an agent has ended.
func (c *controller) departed(a *agent, incarnation uint64) {
	if c.connected[a.id] != a {
		return // the next one is connected
	}
	c.leading(c.leader, func(now time.Duration) { c.leader.Departed(now, a.id, incarnation) })
}

func (c *controller) heartbeat(a *agent, b reconfig.Heartbeat) {
	c.leading(c.leader, func(now time.Duration) {
		c.leader.Heartbeat(now, b)
		c.lastSeen[b.Node] = c.w.now
	})
	c.soon(func() {
		if g, ok := c.grantor.Heartbeat(c.time(), b); ok {
			c.w.net.carry(control, c.endpoint(), a.n.endpoint(), func(bool) { a.soon(func() { a.granted(c, g) }) })
		}
	})
}

func (c *controller) inventory(i reconfig.Inventory) {
	c.leading(c.leader, func(now time.Duration) { c.leader.Inventory(now, i) })
}

func (c *controller) swept(s reconfig.Sweep) {
	c.leading(c.leader, func(now time.Duration) { c.leader.Swept(now, s) })
}
