package planetest

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// testCollect expects a plane to delete what G4 allows, and nothing else.
func testCollect(t *testing.T, open func(*testing.T) Node) {
	p := open(t).Plane
	objects := map[string]chain.Object{
		"at the bar":    {Version: 5, Committed: 5, Tombstone: true},
		"below, dirty":  {Version: 3, Committed: 2, Tombstone: true},
		"empty":         {},
		"above":         {Version: 6, Committed: 6, Tombstone: true},
		"far above":     {Version: 9, Committed: 9, Tombstone: true},
		"above, dirty":  {Version: 8, Committed: 5, Tombstone: true},
		"live":          {Version: 4, Committed: 4, Value: wholeValue(0)},
		"live and gone": {Version: 2, Committed: 1, Value: wholeValue(0)},
	}
	shards := make(map[uint16]chain.ShardConfig)
	for name, o := range objects {
		k := keyOf(name)
		check(t, p.Import([]dataplane.KeyedObject{{Key: k, Object: o}}, nil))
		shards[shardOf(k)] = chain.ShardConfig{}
	}
	members := []netip.AddrPort{
		netip.MustParseAddrPort("192.0.2.1:4411"), p.Info().Addr, netip.MustParseAddrPort("192.0.2.3:4411"),
	}
	for _, c := range []struct {
		config chain.ShardConfig
		gone   []string
		left   dataplane.Tombstones
	}{
		{config: chain.ShardConfig{State: chain.Active, Learner: true, Floor: 9, Bar: 9}},
		{config: chain.ShardConfig{State: chain.Frozen, Floor: 9, Bar: 9}},
		{chain.ShardConfig{State: chain.Active}, []string{"empty"}, dataplane.Tombstones{Count: 3, Highest: 9}},
		{chain.ShardConfig{State: chain.Active, Floor: 9, Bar: 5}, []string{"at the bar", "below, dirty"},
			dataplane.Tombstones{Count: 2, Highest: 9}},
		{chain.ShardConfig{State: chain.Active, Floor: 9, Bar: 9}, []string{"above", "far above", "above, dirty"},
			dataplane.Tombstones{}},
	} {
		c.config.Epoch, c.config.Members, c.config.Self = 1, members, 1
		for shard := range shards {
			shards[shard] = c.config
		}
		check(t, p.ConfigureAll(shards))
		found, err := p.Collect()
		check(t, err)
		var left dataplane.Tombstones
		for _, tombstones := range found {
			left.Count, left.Highest = left.Count+tombstones.Count, max(left.Highest, tombstones.Highest)
		}
		if left != c.left {
			t.Errorf("%+v: %+v are left, want %+v", c.config, left, c.left)
		}
		for _, name := range c.gone {
			delete(objects, name)
		}
		for name, want := range objects {
			if o, there, err := p.Object(keyOf(name)); err != nil || !there || o.Version != want.Version {
				t.Errorf("%+v: %s is %+v, %v, %v", c.config, name, o, there, err)
			}
		}
		if usage, err := p.Usage(); err != nil || usage.Objects != len(objects) {
			t.Errorf("%+v: %d objects, want %d (%v)", c.config, usage.Objects, len(objects), err)
		}
	}
}

// keysEach is the number of keys that each writer creates and deletes: together more than ten times the table's size.
const keysEach = 700

// testCollectBeside collects tombstones while clients create, read and delete many times more keys than the table has
// room for. Versions of a key that comes back grow, and other keys stay as they are.
func testCollectBeside(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	check(t, (&writer{node: n, session: 99}).put(keyOf("stays")))
	var group errgroup.Group
	freed := make(chan struct{}, Options.MaxObjects/4)
	for i := range writers {
		group.Go(func() error { return createAndDelete(n, uint64(i+1), freed) })
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	for floor := uint64(0); ; {
		found, err := n.Plane.Collect()
		check(t, err)
		for _, tombstones := range found {
			floor = max(floor, tombstones.Highest)
		}
		for _, bar := range []uint64{0, floor} { // the second step as soon as the first: a chain of one is always drained
			c := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{n.Plane.Info().Addr}, Floor: floor}
			if c.Bar = bar; bar == 0 {
				c.Bar = lastBar(t, n)
			}
			configure(t, n, c)
		}
		_, err = n.Plane.Collect()
		check(t, err)
		for range len(freed) {
			<-freed // as many keys more
		}
		select {
		case err := <-done:
			check(t, err)
			if s := status(t, n, keyOf("stays")); s != wire.StatusOk {
				t.Errorf("a key that nobody deletes is %v", s)
			}
			return
		default:
		}
	}
}

func lastBar(t *testing.T, n Node) uint64 {
	t.Helper()
	c, err := n.Plane.Config(0)
	check(t, err)
	return c.Bar
}

// createAndDelete writes keys of its own, and one key again and again, and expects no table to be full.
func createAndDelete(n Node, session uint64, freed chan<- struct{}) error {
	seq, last := uint64(0), uint64(0)
	ask := func(op wire.Op, k wire.Key) (wire.Message, error) {
		seq++
		m := wire.Message{Op: op, Shard: shardOf(k), Epoch: 1, Key: k, Request: seq, Session: session, Seq: seq}
		switch op {
		case wire.OpRead:
			m.Session, m.Seq, m.Epoch = 0, 0, 0
		case wire.OpPut:
			m.Value = wholeValue(seq)
		}
		for range math.MaxInt16 {
			reply, answered, err := n.Ask(&m)
			if err != nil || answered && reply.Status() != wire.StatusBusy {
				return reply, err
			}
		}
		return m, errors.New("no answer")
	}
	again := keyOf(fmt.Sprint("again ", session))
	for i := range keysEach {
		freed <- struct{}{}
		k := keyOf(fmt.Sprint("key ", i, " of ", session))
		for _, step := range []struct {
			op   wire.Op
			key  wire.Key
			want wire.Status
		}{
			{wire.OpPut, k, wire.StatusOk}, {wire.OpRead, k, wire.StatusOk}, {wire.OpDelete, k, wire.StatusOk},
			{wire.OpRead, k, wire.StatusNotFound}, {wire.OpPut, again, wire.StatusOk}, {wire.OpDelete, again, wire.StatusOk},
		} {
			reply, err := ask(step.op, step.key)
			switch {
			case err != nil:
				return fmt.Errorf("%v of key %d: %w", step.op, i, err)
			case reply.Status() != step.want:
				return fmt.Errorf("%v of key %d: %v, want %v", step.op, i, reply.Status(), step.want)
			case step.key == again && reply.Version <= last:
				return fmt.Errorf("a key came back with version %d, after %d", reply.Version, last)
			case step.key == again:
				last = reply.Version
			}
		}
	}
	return nil
}
