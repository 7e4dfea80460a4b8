package chain

import (
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

func membersOf(count int) (members []netip.AddrPort) {
	for i := range count {
		members = append(members, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), wire.Port))
	}
	return members
}

// TestConfigurations checks valid configurations at each limit, and those just outside.
func TestConfigurations(t *testing.T) {
	three := membersOf(3)
	v6 := netip.MustParseAddrPort("[fe80::1]:4411")
	noPort := netip.AddrPortFrom(three[1].Addr(), 0)
	for _, c := range []struct {
		what   string
		valid  bool
		config ShardConfig
	}{
		{"no chain", true, ShardConfig{State: None, Self: 9, Bar: 3}},
		{"no members", false, ShardConfig{State: Active}},
		{"the only member", true, ShardConfig{State: Active, Members: three[:1]}},
		{"as many members as possible", true, ShardConfig{State: Active, Members: membersOf(wire.MaxChain)}},
		{"one too many", false, ShardConfig{State: Active, Members: membersOf(wire.MaxChain + 1)}},
		{"the tail", true, ShardConfig{State: Frozen, Members: three, Self: 2}},
		{"behind the tail", false, ShardConfig{State: Active, Members: three, Self: 3}},
		{"before the head", false, ShardConfig{State: Active, Members: three, Self: -1}},
		{"a learner", true, ShardConfig{State: Active, Members: three, Self: 1, Learner: true}},
		{"a learner as head", false, ShardConfig{State: Active, Members: three, Learner: true}},
		{"a learner as tail", false, ShardConfig{State: Active, Members: three, Self: 2, Learner: true}},
		{"a bar at the floor", true, ShardConfig{State: Active, Members: three, Floor: 5, Bar: 5}},
		{"a bar above the floor", false, ShardConfig{State: Active, Members: three, Floor: 5, Bar: 6}},
		{"a member twice", false, ShardConfig{State: Active, Members: []netip.AddrPort{three[0], three[1], three[0]}}},
		{"IPv6", false, ShardConfig{State: Active, Members: []netip.AddrPort{three[0], v6}}},
		{"no port", false, ShardConfig{State: Active, Members: []netip.AddrPort{three[0], noPort}}},
	} {
		if err := c.config.Validate(); (err == nil) != c.valid {
			t.Errorf("%s: %v", c.what, err)
		}
		n := New(Options{Shards: 4, CellBytes: 64, MaxObjects: 8, MaxSessions: 8})
		if err := n.Configure(3, c.config); (err == nil) != c.valid {
			t.Errorf("%s, given to a node: %v", c.what, err)
		}
		for number, valid := range map[uint16]bool{3: c.valid, 4: false} {
			if err := ValidateAll(map[uint16]ShardConfig{number: c.config}, 4); (err == nil) != valid {
				t.Errorf("%s, shard %d of 4: %v", c.what, number, err)
			}
		}
	}
}

// TestOptions checks each option at its limits, and just outside.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		what   string
		set    func(o *Options, n int)
		inside []int
		out    []int
	}{
		{"shards", func(o *Options, n int) { o.Shards = n }, []int{1, 2, wire.MaxShards}, []int{-1, 0, 3, 2 * wire.MaxShards}},
		{"cell", func(o *Options, n int) { o.CellBytes = n }, []int{8, wire.MaxValueBytes}, []int{7, wire.MaxValueBytes + 1}},
		{"objects", func(o *Options, n int) { o.MaxObjects = n }, []int{1}, []int{0}},
		{"sessions", func(o *Options, n int) { o.MaxSessions = n }, []int{1}, []int{0}},
		{"sessions of a client", func(o *Options, n int) { o.ClientSessions = n }, []int{0, 1}, []int{-1}},
		{"client rate", func(o *Options, n int) { o.ClientRate = n }, []int{0, maxClientRate}, []int{-1, maxClientRate + 1}},
		{"answer rate", func(o *Options, n int) { o.AnswerRate = n }, []int{0, maxAnswerRate}, []int{-1, maxAnswerRate + 1}},
	} {
		for valid, numbers := range map[bool][]int{true: c.inside, false: c.out} {
			for _, n := range numbers {
				o := Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8}
				if c.set(&o, n); (o.Validate() == nil) != valid {
					t.Errorf("%s %d: %v", c.what, n, o.Validate())
				}
			}
		}
	}
}

// TestResyncOfAWriteWithoutDigest expects a PUT whose operand is its own version: a member that learns of it keeps no
// digest either, and takes its retry for what it is (W2).
func TestResyncOfAWriteWithoutDigest(t *testing.T) {
	c := ShardConfig{Epoch: 7, State: Active, Members: membersOf(3)}
	o := Object{Version: 5, Committed: 4, Value: []byte("v")}
	for _, s := range []struct {
		what   string
		writer Session
		want   uint64
	}{
		{"no digest", Session{Op: wire.OpPut}, 5},
		{"a PUT", Session{Op: wire.OpPut, Result: Digest(0, o.Value)}, 0},
		{"a CAS", Session{Op: wire.OpCAS, Result: Digest(4, o.Value)}, 4},
		{"an ADD", Session{Op: wire.OpAdd, Result: 9}, 0},
	} {
		s.writer.Seq, s.writer.Version = 3, 5
		send, due := Resync(c, 0, wire.Key{Lo: 1}, o, s.writer, 77, 88)
		if !due || send.Message.Operand != s.want || send.Message.Session != 77 || send.Message.Seq != 3 {
			t.Errorf("%s: %+v %v, want operand %d", s.what, send, due, s.want)
		}
	}
}

// TestResyncWithoutTheWriter: the head sends a write whose entry is gone in its own session. Nodes ask the tail about
// an object that is not clean, and the head too if the version is at or below the bar (W9).
func TestResyncWithoutTheWriter(t *testing.T) {
	head := ShardConfig{Epoch: 7, State: Active, Members: membersOf(3), Floor: 9, Bar: 4}
	dirty := Object{Version: 5, Committed: 4, Value: []byte("v")}
	for _, c := range []struct {
		what   string
		change func(c *ShardConfig, o *Object)
		op     wire.Op // zero: nothing is sent
		client wire.Op
	}{
		{"a value", func(*ShardConfig, *Object) {}, wire.OpUpdate, wire.OpPut},
		{"a tombstone", func(_ *ShardConfig, o *Object) { o.Tombstone, o.Value = true, nil }, wire.OpUpdate, wire.OpDelete},
		{"a version at the bar", func(c *ShardConfig, _ *Object) { c.Bar = 5 }, wire.OpProbe, 0},
		{"a replica", func(c *ShardConfig, _ *Object) { c.Self = 1 }, wire.OpProbe, 0},
		{"the tail", func(c *ShardConfig, _ *Object) { c.Self = 2 }, 0, 0},
		{"a clean object", func(_ *ShardConfig, o *Object) { o.Committed = 5 }, 0, 0},
		{"a frozen chain", func(c *ShardConfig, _ *Object) { c.State = Frozen }, 0, 0},
	} {
		config, o := head, dirty
		c.change(&config, &o)
		send, due := Resync(config, 0, wire.Key{Lo: 1}, o, Session{}, 77, 88)
		m := send.Message
		if due != (c.op != 0) || m.Op != c.op || m.ClientOp != c.client {
			t.Errorf("%s: %v of a %v, due %v; want %v of a %v", c.what, m.Op, m.ClientOp, due, c.op, c.client)
		}
		if m.Op == wire.OpUpdate && (m.Session != 88 || m.Seq != 5 || m.Operand != 0 || send.To != config.Members[1]) {
			t.Errorf("%s: %+v to %v", c.what, m, send.To)
		}
		if m.Op == wire.OpProbe && send.To != config.Members[2] {
			t.Errorf("%s: to %v", c.what, send.To)
		}
	}
}
