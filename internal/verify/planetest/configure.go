package planetest

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// freezes is the number of times that testFreeze freezes a shard.
const freezes = 300

func testConfigure(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	self := n.Plane.Info().Addr
	good := chain.ShardConfig{Epoch: 3, State: chain.Frozen, Members: []netip.AddrPort{self}}
	for name, bad := range map[uint16]chain.ShardConfig{
		1:                      {Epoch: 1, State: chain.Active},
		uint16(Options.Shards): good,
	} {
		if err := n.Plane.ConfigureAll(map[uint16]chain.ShardConfig{0: good, name: bad}); err == nil {
			t.Errorf("shard %d: %+v is taken", name, bad)
		}
		if c, err := n.Plane.Config(0); err != nil || c.State != chain.None {
			t.Errorf("shard 0 is %+v, %v, after a call that failed", c, err)
		}
	}
	configure(t, n, good)
	for range 3 { // each of the two configuration slots is reused
		for _, state := range []chain.State{chain.Active, chain.Frozen, chain.None} {
			good.Epoch++
			good.State = state
			configure(t, n, good)
			for _, shard := range allShards() {
				c, err := n.Plane.Config(shard)
				if err != nil || c.Epoch != good.Epoch || c.State != state || !slices.Equal(c.Members, good.Members) {
					t.Fatalf("shard %d: %+v, %v, want %+v", shard, c, err, good)
				}
			}
		}
	}
}

// testFreeze expects that no earlier write takes effect after a call that freezes a shard has
// returned.
func testFreeze(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	k := keyOf("k")
	stop := make(chan struct{})
	var group errgroup.Group
	for i := range 2 * writers {
		w := writer{node: n, session: uint64(i + 1), stop: stop}
		group.Go(func() error {
			for !w.stopped() {
				if err := w.put(k); err != nil {
					return err
				}
			}
			return nil
		})
	}
	config, err := n.Plane.Config(shardOf(k))
	check(t, err)
	for range freezes {
		config.State = chain.Frozen
		check(t, n.Plane.ConfigureAll(map[uint16]chain.ShardConfig{shardOf(k): config}))
		before, _, err := n.Plane.Object(k)
		check(t, err)
		for range 20 {
			after, _, err := n.Plane.Object(k)
			check(t, err)
			if after.Version != before.Version {
				t.Fatalf("version %d became %d in a frozen shard", before.Version, after.Version)
			}
		}
		config.State = chain.Active
		check(t, n.Plane.ConfigureAll(map[uint16]chain.ShardConfig{shardOf(k): config}))
	}
	close(stop)
	check(t, group.Wait())
}

func testLeases(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	self := n.Plane.Info().Addr
	k := keyOf("k")
	shard := shardOf(k)
	want := func(what string, want wire.Status) {
		t.Helper()
		if got := status(t, n, k); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	set := func(c chain.ShardConfig) {
		t.Helper()
		check(t, n.Plane.ConfigureAll(map[uint16]chain.ShardConfig{shard: c}))
	}
	active := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{self}}
	other := netip.AddrPortFrom(self.Addr().Next(), self.Port())
	third := netip.AddrPortFrom(other.Addr().Next(), self.Port())
	learner := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: 1, Learner: true,
		Members: []netip.AddrPort{other, self, third}}

	want("not configured", wire.StatusNotMine)
	set(active)
	want("never renewed", wire.StatusBusy)
	hour := n.Plane.Clock() + uint64(time.Hour)
	check(t, n.Plane.Renew(hour))
	want("renewed", wire.StatusNotFound)
	check(t, n.Plane.Renew(n.Plane.Clock()))
	want("over", wire.StatusBusy)
	set(chain.ShardConfig{})
	check(t, n.Plane.Renew(hour))
	want("left", wire.StatusNotMine)
	set(active)
	want("back, with the lease of the node", wire.StatusNotFound)
	set(learner)
	check(t, n.Plane.Renew(n.Plane.Clock()))
	set(active)
	want("complete, with a lease that is over", wire.StatusBusy)
	check(t, n.Plane.Grant(shard, time.Hour))
	want("granted", wire.StatusNotFound)
	check(t, n.Plane.Grant(shard, 0))
	want("withdrawn", wire.StatusBusy)
}

func testLoads(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	w := writer{node: n, session: 1}
	k := keyOf("k")
	for range 3 {
		check(t, w.put(k))
	}
	for range 5 {
		status(t, n, k)
	}
	status(t, n, keyOf("never written"))
	loads, err := n.Plane.Loads()
	check(t, err)
	if len(loads) != Options.Shards {
		t.Fatalf("loads of %d shards", len(loads))
	}
	reads, writes := uint64(0), uint64(0)
	for _, l := range loads {
		reads += l.Reads
		writes += l.Writes
	}
	if own := loads[shardOf(k)]; own.Reads < 5 || own.Writes != 3 || reads != 6 || writes != 3 {
		t.Errorf("the shard has %+v, all have %d reads and %d writes", own, reads, writes)
	}
	o, found, err := n.Plane.Object(k)
	check(t, err)
	if !found || o.Reads != 5 || o.Writes != 3 {
		t.Errorf("the object has %d reads and %d writes", o.Reads, o.Writes)
	}
	counters, err := n.Plane.Counters()
	check(t, err)
	if got := counters[chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeAnsweredClean}]; got != 5 {
		t.Errorf("%d clean reads are counted", got)
	}
}
