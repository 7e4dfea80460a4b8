package reconfig

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

var (
	self   = netip.MustParseAddrPort("192.0.2.1:4411")
	before = netip.MustParseAddrPort("192.0.2.2:4411")
	after  = netip.MustParseAddrPort("192.0.2.3:4411")
)

const shards = 4

// nodePlane is a plane that consists of a node of the chain.
type nodePlane struct {
	*chain.Node
	room  int   // for objects; 0: enough
	fails error // of ConfigureAll
}

func (p *nodePlane) Config(shard uint16) (chain.ShardConfig, error) { return p.Node.Config(shard), nil }

func (p *nodePlane) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	if p.fails != nil {
		return p.fails
	}
	for shard, config := range configs {
		if err := p.Configure(shard, config); err != nil {
			return err
		}
	}
	return nil
}

func (p *nodePlane) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	for _, o := range objects {
		if p.room > 0 && len(p.Objects()) >= p.room {
			return fmt.Errorf("no room: %w", dataplane.ErrFull)
		}
		p.PutObject(o.Key, o.Object)
	}
	for _, s := range sessions {
		p.PutSession(s.Key, s.Session)
	}
	return nil
}

// bench is a member with its plane, and the order numbers that it was given.
type bench struct {
	t     *testing.T
	plane *nodePlane
	*Member
	number uint64
}

func newBench(t *testing.T, o MemberOptions) *bench {
	t.Helper()
	plane := &nodePlane{Node: chain.New(chain.Options{Shards: shards, CellBytes: 64, MaxObjects: 100, MaxSessions: 100})}
	return attach(t, plane, o)
}

func attach(t *testing.T, plane *nodePlane, o MemberOptions) *bench {
	t.Helper()
	o.Self, o.Shards = self, shards
	m, err := NewMember(plane, o)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, plane: plane, Member: m}
}

// give gives the next order of term 1 and reports whether it was applied.
func (b *bench) give(configs map[uint16]ShardOrder) bool {
	b.t.Helper()
	b.number++
	if err := b.Order(Order{Term: 1, Number: b.number, Configs: configs}); err != nil {
		b.t.Fatal(err)
	}
	return b.Heartbeat().Done == b.number
}

func (b *bench) wiped() {
	b.t.Helper()
	if err := b.Wiped(b.Work().Wipe); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) is(shard uint16, want ShardOrder) {
	b.t.Helper()
	if got := b.plane.Node.Config(shard); !SameConfig(got, want.Config) {
		b.t.Errorf("shard %d is %+v, want %+v", shard, got, want.Config)
	}
}

// full is a configuration with this node as the head, learner one with it inside, hold and none without it.
func full(epoch uint32, state chain.State) ShardOrder {
	return ShardOrder{Config: chain.ShardConfig{Epoch: epoch, State: state, Members: []netip.AddrPort{self, after}}, Fresh: true}
}

func learner(epoch uint32, source string) ShardOrder {
	return ShardOrder{Config: chain.ShardConfig{Epoch: epoch, State: chain.Active, Learner: true, Self: 1,
		Members: []netip.AddrPort{before, self, after}}, Source: source}
}

func hold(epoch uint32, source string) ShardOrder {
	return ShardOrder{Config: chain.ShardConfig{Epoch: epoch}, Source: source}
}

func none(epoch uint32) ShardOrder { return hold(epoch, "") }

func only(shard uint16, o ShardOrder) map[uint16]ShardOrder { return map[uint16]ShardOrder{shard: o} }

func TestOrderIsApplied(t *testing.T) {
	b := newBench(t, MemberOptions{})
	if !b.give(map[uint16]ShardOrder{0: full(1, chain.Frozen), 2: none(3)}) {
		t.Error("not applied")
	}
	b.is(0, full(1, chain.Frozen))
	b.is(2, none(3))
	want := map[uint16]chain.ShardConfig{0: full(1, chain.Frozen).Config}
	if got := b.Inventory(); got.Term != b.Term() || !reflect.DeepEqual(got.Configs, want) {
		t.Errorf("inventory is %v, want %v", got, want)
	}
}

// TestOldOrders: a lower term or number changes nothing (C5), a higher term begins to count anew.
func TestOldOrders(t *testing.T) {
	for _, c := range []struct {
		name         string
		without      Rule
		term, number uint64
		epoch        uint32
		heartbeat    [2]uint64 // term, done
	}{
		{"lower number", 0, 5, 6, 2, [2]uint64{5, 7}},
		{"same number", 0, 5, 7, 2, [2]uint64{5, 7}},
		{"lower term", 0, 4, 9, 2, [2]uint64{5, 7}},
		{"lower term, without C5", C5, 4, 9, 3, [2]uint64{4, 9}},
		{"higher term", 0, 6, 1, 3, [2]uint64{6, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, MemberOptions{Without: c.without})
			for _, o := range []Order{{5, 7, only(0, full(2, chain.Active))}, {c.term, c.number, only(0, full(3, chain.Frozen))}} {
				if err := b.Order(o); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.plane.Node.Config(0).Epoch; got != c.epoch {
				t.Errorf("epoch is %d, want %d", got, c.epoch)
			}
			if heartbeat := b.Heartbeat(); [2]uint64{heartbeat.Term, heartbeat.Done} != c.heartbeat {
				t.Errorf("heartbeat is %+v, want term and number %v", heartbeat, c.heartbeat)
			}
		})
	}
}

// TestTermOutlivesTheMember: an agent that starts again on the same plane knows the term.
func TestTermOutlivesTheMember(t *testing.T) {
	b := newBench(t, MemberOptions{Term: 6})
	if err := b.Order(Order{5, 1, only(0, full(1, chain.Active))}); err != nil || b.plane.Node.Config(0).Epoch != 0 {
		t.Errorf("an order of an older term was applied (%v)", err)
	}
}

func TestWrongOrderChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong ShardOrder
		shard uint16
		want  string
	}{
		{"older epoch", full(4, chain.Active), 0, "epoch 4 is older"},
		{"leaves in an older epoch", none(4), 0, "epoch 4 is older"},
		{"other chain", ShardOrder{Config: chain.ShardConfig{Epoch: 5, State: chain.Active, Members: []netip.AddrPort{self}}},
			0, "needs a higher epoch"},
		{"not this node", ShardOrder{Config: chain.ShardConfig{Epoch: 6, State: chain.Active,
			Members: []netip.AddrPort{after}}}, 0, "not 192.0.2.3"},
		{"no epoch", none(0), 2, "first epoch is 1"},
		{"no such shard", full(6, chain.Active), shards, "there are 4"},
		{"learner at an end", ShardOrder{Config: chain.ShardConfig{Epoch: 6, State: chain.Active, Learner: true,
			Members: []netip.AddrPort{self, after}}}, 0, "strictly inside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, MemberOptions{})
			b.give(only(0, full(5, chain.Active)))
			configs := map[uint16]ShardOrder{1: full(9, chain.Active), c.shard: c.wrong}
			if b.give(configs) {
				t.Error("applied")
			}
			b.is(0, full(5, chain.Active))
			b.is(1, none(0))
			if heartbeat := b.Heartbeat(); !strings.Contains(heartbeat.Refused, c.want) {
				t.Errorf("refused because %q, want %q", heartbeat.Refused, c.want)
			}
			if !b.give(only(1, full(9, chain.Active))) || b.Heartbeat().Refused != "" {
				t.Error("the next order, which is right, was not applied")
			}
		})
	}
}

// TestPlaneFails: an order that the plane did not take is not done, and is applied when it is repeated.
func TestPlaneFails(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.plane.fails = fmt.Errorf("no memory")
	o := Order{1, 1, only(0, full(1, chain.Active))}
	if err := b.Order(o); err == nil || b.Heartbeat().Done != 0 || b.Heartbeat().Refused != "no memory" {
		t.Errorf("%v, %+v", err, b.Heartbeat())
	}
	b.plane.fails = nil
	if err := b.Order(o); err != nil || b.Heartbeat().Done != 1 || b.Heartbeat().Refused != "" {
		t.Errorf("%v, %+v", err, b.Heartbeat())
	}
}

// TestLeave: leaving is confirmed at once, joining again waits for the wipe, and other shards do not wait for it (C4).
func TestLeave(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(only(0, full(1, chain.Active)))
	if !b.give(only(0, none(2))) || b.Heartbeat().Wiping != 1 || !slices.Equal(b.Work().Wipe, []uint16{0}) {
		t.Fatalf("%+v, %+v", b.Heartbeat(), b.Work())
	}
	if b.give(map[uint16]ShardOrder{0: learner(3, "s"), 1: full(1, chain.Frozen)}) {
		t.Error("confirmed before the shard was wiped")
	}
	b.is(0, none(2))
	b.is(1, full(1, chain.Frozen))
	b.wiped()
	b.is(0, learner(3, "s"))
	if heartbeat := b.Heartbeat(); heartbeat.Done != b.number || heartbeat.Wiping != 0 {
		t.Errorf("%+v", heartbeat)
	}
}

// TestStaleLearner: a node that was, or may have been, out of a chain for an epoch begins empty (C4).
func TestStaleLearner(t *testing.T) {
	for _, c := range []struct {
		name    string
		without Rule
		before  ShardOrder
		now     ShardOrder
		wiped   bool
	}{
		{"goes on learning", 0, learner(1, "s"), learner(2, "s"), false},
		{"was out for an epoch", 0, learner(1, "s"), learner(3, "s"), true},
		{"was out, without C4", C4, learner(1, "s"), learner(3, "s"), false},
		{"was a full member", 0, full(1, chain.Active), learner(3, "s"), true},
		{"stays a full member", 0, full(1, chain.Active), full(4, chain.Active), false},
		{"held twice", 0, hold(1, "s"), hold(2, "s"), true},
		{"held no more", 0, hold(1, "s"), learner(2, "s"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, MemberOptions{Without: c.without})
			b.give(only(0, c.before))
			if done := b.give(only(0, c.now)); done == c.wiped || (len(b.Work().Wipe) > 0) != c.wiped {
				t.Errorf("done %v, %+v", done, b.Work())
			}
			b.wiped()
			b.is(0, c.now)
			if b.Heartbeat().Done != b.number {
				t.Error("not done after all")
			}
		})
	}
}

// TestKeptPlane: a plane that outlived an agent may hold data of former shards; a learner's copy begins again.
func TestKeptPlane(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(map[uint16]ShardOrder{0: full(1, chain.Active), 1: learner(1, "s")})
	b = attach(t, b.plane, MemberOptions{Kept: true})
	if got := b.Work().Wipe; !slices.Equal(got, []uint16{2, 3}) {
		t.Errorf("wipes %v", got)
	}
	want := map[uint16]chain.ShardConfig{0: full(1, chain.Active).Config}
	if got := b.Inventory(); got.Term != b.Term() || !reflect.DeepEqual(got.Configs, want) {
		t.Errorf("inventory is %v, want %v", got, want)
	}
	if !b.give(only(1, learner(1, "s"))) || len(b.Work().Copies) != 1 {
		t.Errorf("the copy did not begin again: %+v", b.Work())
	}
}

func TestMayExport(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(map[uint16]ShardOrder{0: full(2, chain.Frozen), 1: learner(2, "s")})
	for _, c := range []struct {
		shard uint16
		epoch uint32
		want  string
	}{
		{0, 2, ""}, {0, 1, "is in epoch 2, not 1"}, {0, 3, "is in epoch 2, not 3"}, {1, 2, "no complete member"},
		{2, 2, "no complete member"}, {shards, 2, "there are 4"},
	} {
		err := b.MayExport(c.shard, c.epoch)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("shard %d, epoch %d: %v, want %q", c.shard, c.epoch, err, c.want)
		}
	}
}

// keyIn returns the n-th key of a shard.
func keyIn(shard uint16, n uint64) wire.Key { return wire.Key{Hi: n, Lo: uint64(shard)} }
