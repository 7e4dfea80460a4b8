package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// etcdRecipes are the kinds of faults of members that read through the chain. The longest pauses outlast a member's
// session.
var etcdRecipes = []recipe{
	{"member_kill", 8, 100 * time.Millisecond, 5 * time.Second, (*driver).etcdKill},
	{"member_pause", 8, 50 * time.Millisecond, 8 * time.Second, (*driver).etcdPause},
	{"member_replaced", 5, time.Millisecond, 3 * time.Second, (*driver).memberReplaced},
	{"member_plain", 4, 500 * time.Millisecond, 4 * time.Second, (*driver).memberPlain},
	{"member_off", 4, 50 * time.Millisecond, 3 * time.Second, (*driver).memberOff},
	{"member_leads", 4, time.Millisecond, 2 * time.Millisecond, (*driver).memberLeads},
	{"partition_members", 8, 200 * time.Millisecond, 7 * time.Second, (*driver).partitionMembers},
	{"partition_chain", 8, 100 * time.Millisecond, 5 * time.Second, (*driver).partitionChain},
}

// MemberKinds lists the kinds of faults of a trial of members that read through the chain.
func MemberKinds() []string { return append(Kinds(), names(etcdRecipes)...) }

const (
	// stopWithin bounds the stop of a member: it ends fast reads first.
	stopWithin = time.Minute
	// stillFast begins what a member logs that could not end fast reads.
	stillFast = "other members may still read through the chain"
)

// pickMember returns the number of a member without a fault; ok is false if there is none.
func (d *driver) pickMember() (i int, ok bool) {
	s, _ := d.pickService(d.members)
	i = slices.Index(d.members, s)
	return i, i >= 0
}

// memberReplaced removes a member, and adds one with an empty data directory at the same place: as a learner, which is
// promoted, or as a member with a vote.
func (d *driver) memberReplaced() *fault {
	i, ok := d.pickMember()
	if !ok || d.struck(d.controllers[i]) {
		return nil
	}
	c, s, peer, learner := d.etcd, d.members[i], d.etcd.o.Peer(d.etcd.hosts[i]), d.rng.IntN(3) > 0
	within := func(ctx context.Context, do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, replacePatience)
		defer cancel()
		return do(ctx)
	}
	return &fault{
		hosts: []string{s.Name, d.controllers[i]}, silent: d.controllers[i],
		begin: func(ctx context.Context) error {
			o, err := c.operate()
			if err != nil {
				return err
			}
			return within(ctx, func(ctx context.Context) error { return o.Remove(ctx, peer) })
		},
		end: func(ctx context.Context) error {
			if err := s.Kill(); err != nil {
				return err
			}
			if err := os.RemoveAll(c.o.Dir(c.l, c.hosts[i])); err != nil {
				return err
			}
			return within(ctx, func(ctx context.Context) error { return c.joinAgain(ctx, i, learner) })
		},
	}
}

// joinAgain adds the member of a number, starts it, and promotes it if it is a learner.
func (c *memberControl) joinAgain(ctx context.Context, i int, learner bool) error {
	o, err := c.operate()
	if err != nil {
		return err
	}
	peer := c.o.Peer(c.hosts[i])
	if err := o.Add(ctx, peer, learner); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	c.joined[c.hosts[i].Name] = true
	c.use(i, false)
	if err := c.services[i].Start(); err != nil {
		return err
	}
	if err := o.Promote(ctx, peer); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}

// memberPlain stops a member, starts plain etcd on its data directory, and goes back.
func (d *driver) memberPlain() *fault {
	i, ok := d.pickMember()
	if !ok || d.struck(d.controllers[i]) {
		return nil
	}
	c, s := d.etcd, d.members[i]
	return &fault{
		hosts: []string{s.Name, d.controllers[i]}, silent: d.controllers[i],
		begin: func(ctx context.Context) error { return c.replaceProgram(ctx, i, true) },
		end:   func(ctx context.Context) error { return c.replaceProgram(ctx, i, false) },
	}
}

// replaceProgram stops the member of a number and starts it as plain etcd, or as this program. If the member says that
// others may still read fast, that is ended at another member first, as docs/member.md says.
func (c *memberControl) replaceProgram(ctx context.Context, i int, plain bool) error {
	said, err := c.services[i].Stop(stopWithin)
	if err != nil {
		return err
	}
	if plain && strings.Contains(said, stillFast) {
		c.warned++
		other := c.o.Dir(c.l, c.hosts[(i+1)%len(c.hosts)])
		if err := c.o.Switch(ctx, other, true); err != nil {
			return fmt.Errorf("end fast reads: %w", err)
		}
		if err := c.o.Switch(ctx, other, false); err != nil {
			return err
		}
	}
	c.use(i, plain)
	return c.services[i].Start()
}

// memberOff has an operator end fast reads, and begin them again.
func (d *driver) memberOff() *fault {
	i, ok := d.pickMember()
	if !ok {
		return nil
	}
	dir := d.etcd.o.Dir(d.etcd.l, d.etcd.hosts[i])
	change := func(ctx context.Context, off bool) error {
		if err := d.etcd.o.Switch(ctx, dir, off); err != nil {
			d.setup.event("an operator's command failed: %v", err) // as it may: the member may just start
		}
		return nil
	}
	return &fault{
		hosts: []string{d.members[i].Name},
		begin: func(ctx context.Context) error { return change(ctx, true) },
		end:   func(ctx context.Context) error { return change(ctx, false) },
	}
}

// memberLeads makes a member the leader, if etcd goes along.
func (d *driver) memberLeads() *fault {
	i, ok := d.pickMember()
	if !ok {
		return nil
	}
	return &fault{
		hosts: []string{d.members[i].Name},
		begin: func(ctx context.Context) error {
			o, err := d.etcd.operate()
			if err != nil {
				return err
			}
			if err := o.Lead(ctx, d.etcd.o.Peer(d.etcd.hosts[i])); err != nil {
				d.setup.event("the leader stays: %v", err)
			}
			return nil
		},
		end: func(context.Context) error { return nil },
	}
}

// partitionMembers separates a member from the others, but not from the chain's nodes.
func (d *driver) partitionMembers() *fault {
	host := d.pick(d.controllers)
	groups := [][]string{{host}, slices.DeleteFunc(slices.Clone(d.controllers), func(name string) bool { return name == host })}
	oneWay := d.rng.IntN(3) == 0
	if oneWay && d.rng.IntN(2) == 0 {
		slices.Reverse(groups)
	}
	return d.parted(&fault{hosts: []string{host}, silent: host, cut: &lab.Partition{Groups: groups, OneWay: oneWay}})
}

// partitionChain separates a member from all nodes of the chain, but not from the others. Reads of a node's memory on
// the same machine go on.
func (d *driver) partitionChain() *fault {
	host := d.pick(d.controllers)
	return d.parted(&fault{hosts: []string{host}, cut: &lab.Partition{
		Groups: [][]string{{host}, d.nodes}, Traffic: lab.DataTraffic, OneWay: d.rng.IntN(4) == 0,
	}})
}
