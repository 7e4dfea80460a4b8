package reconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// start starts a node's agent: on the plane that it left, or, without its state, on an empty one.
func (n *testNode) start(kept bool) {
	n.life++
	if !kept {
		n.reg.Incarnation = n.rng.Uint64() | 1
		n.configs, n.held = make([]chain.ShardConfig, len(n.acked)), make([]map[int]bool, len(n.acked))
		for shard := range n.held {
			n.held[shard] = make(map[int]bool)
		}
		n.verified = make([]int, len(n.acked))
		n.term, n.until = 0, 0
	}
	member, err := NewMember(n, MemberOptions{Self: n.reg.Addr, Shards: len(n.acked), Kept: kept, Term: n.term, Without: n.options.Without})
	if err != nil {
		n.t.Fatal(err)
	}
	n.member, n.lease, n.copies = member, Lease{}, make(map[uint64]bool)
	n.running, n.powered, n.cut, n.departs = true, true, false, nil
	n.work()
	if !kept {
		n.tags = n.state.Settings.Tags // it asks before it opens its plane
	}
	n.greet(n.life)
	n.welcome(n.state.Settings.Tags)
}

// greet registers until the leader has heard it.
func (n *testNode) greet(life int) {
	if n.life != life || !n.running {
		return
	}
	if id := n.id(); id != 0 {
		n.inform()
		n.tellLeader(func(l *Leader) { _ = l.Register(n.now, n.reg) })
		return
	}
	reg := n.reg
	n.tellLeader(func(l *Leader) {
		if err := l.Register(n.now, reg); err != nil {
			n.logf("node %s is refused: %v", reg.Name, err)
		}
	})
	n.after(20*ms, func() { n.greet(life) })
}

// id is the node's, once the state has it with this incarnation.
func (n *testNode) id() NodeID {
	for id, r := range n.state.Nodes {
		if r.Name == n.reg.Name && r.Incarnation == n.reg.Incarnation {
			return id
		}
	}
	return 0
}

func (n *testNode) tellLeader(do func(l *Leader)) {
	if !n.cut && n.running {
		n.send(func() {
			if !n.cut {
				n.tell(do)
			}
		})
	}
}

// stop ends the agent; the plane goes on.
func (n *testNode) stop() {
	n.logf("agent of %s stops", n.reg.Name)
	n.running = false
	n.life++
}

// kill ends the agent and the plane, and with it the state.
func (n *testNode) kill() {
	n.stop()
	n.logf("%s is dead", n.reg.Name)
	n.powered = false
}

func (n *testNode) heartbeat() {
	id := n.id()
	if id == 0 || !n.running || n.cut {
		return
	}
	b := n.lease.Stamp(n.member.Heartbeat(), uint64(n.now))
	b.Node, b.Incarnation, b.TagsSince, b.Departing = id, n.reg.Incarnation, n.tags.Since, n.departs != nil
	n.tellLeader(func(l *Leader) { l.Heartbeat(n.now, b) })
	life := n.life
	for i, g := range n.grantors {
		n.send(func() {
			if n.cut {
				return
			}
			if grant, ok := g.Heartbeat(n.now, b); ok {
				n.send(func() {
					if n.life == life && !n.cut && n.lease.Grant(fmt.Sprint("c", i), grant) {
						n.until = max(n.until, n.asTime(n.lease.Until()))
					}
				})
			}
		})
	}
}

func (n *testNode) inform() {
	i := n.member.Inventory()
	i.Node, i.Incarnation = n.id(), n.reg.Incarnation
	n.tellLeader(func(l *Leader) { l.Inventory(n.now, i) })
}

func (n *testNode) order(o Order) {
	if !n.running || n.cut || n.mute || n.id() == 0 {
		return
	}
	if err := n.member.Order(o); err != nil {
		n.t.Fatal(err)
	}
	if n.term = n.member.Term(); len(o.Configs) == 0 {
		n.inform()
	}
	n.work()
}

// work does the long tasks.
func (n *testNode) work() {
	work, life := n.member.Work(), n.life
	if len(work.Wipe)+len(work.Doubt) > 0 {
		n.after(n.delay(20*ms), func() {
			if n.life != life || !n.running {
				return
			}
			wipe, doubt := n.member.Work().Wipe, n.member.Work().Doubt
			for _, shard := range wipe {
				if n.configs[shard].State != chain.None {
					n.fatalf("%s is to delete shard %d, which it is in", n.reg.Name, shard)
				}
				clear(n.held[shard])
				n.verified[shard] = 0
			}
			for _, shard := range doubt {
				if n.configs[shard].State != chain.None {
					n.fatalf("%s is to look through shard %d, which it is in", n.reg.Name, shard)
				}
			}
			if err := errors.Join(n.member.Wiped(wipe), n.member.Doubted(doubt)); err != nil {
				n.t.Fatal(err)
			}
			n.work()
		})
	}
	for _, c := range work.Copies {
		if !n.copies[c.Job] {
			n.copies[c.Job] = true
			n.after(n.delay(20*ms), func() { n.copyFrom(life, c) })
		}
	}
}

func (n *testNode) copyFrom(life int, c Copy) {
	if n.life != life || !n.running {
		return
	}
	at := slices.IndexFunc(n.nodes, func(o *testNode) bool { return o.reg.API == c.Source })
	source := n.nodes[at]
	failed := !source.running || n.rng.IntN(10) == 0
	for shard, epoch := range c.Shards {
		if !failed {
			failed = source.member.MayExport(shard, epoch) != nil
		}
	}
	if failed {
		n.member.CopyFailed(c.Job)
		n.after(5*ms, func() {
			if n.life == life && n.running {
				n.work()
			}
		})
		return
	}
	for shard := range c.Shards {
		maps.Copy(n.held[shard], source.held[shard])
		if n.room > 0 && len(n.held[shard]) > n.room {
			n.member.giveUp(c.Job, fmt.Errorf("no room for more than %d", n.room))
			return
		}
	}
	n.after(n.slowCopy+n.delay(20*ms), func() {
		if n.life == life && n.running {
			n.member.CopyDone(c.Job)
		}
	})
}
