package reconfig

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
)

const (
	manyNodes  = 1000
	manyShards = 65536
)

// large is a leader of a large cluster in which all is well.
type large struct {
	testing.TB
	*Leader
	now time.Duration
}

func newLarge(t testing.TB) *large {
	s := &State{Settings: testSettings(manyShards, 3), Nodes: map[NodeID]*Node{}, Shards: make([]Shard, manyShards),
		Controllers: threeControllers()}
	var candidates []topology.Candidate
	for id := NodeID(1); id <= manyNodes; id++ {
		name := fmt.Sprintf("node-%d", id)
		s.Nodes[id] = &Node{
			ID: id, Name: name, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(id >> 8), byte(id)}), 4411), API: name,
			Capacity: 1, Incarnation: uint64(id), Standing: Up,
		}
		candidates = append(candidates, topology.Candidate{ID: uint32(id), Name: name, Capacity: 1})
	}
	inventories := make(map[NodeID]map[uint16]chain.ShardConfig)
	ring := topology.NewRing(candidates, "")
	for number := range s.Shards {
		s.Shards[number].Epoch = 1
		for _, id := range ring.Place(uint16(number), 3) {
			s.Shards[number].Members = append(s.Shards[number].Members, NodeID(id))
			if inventories[NodeID(id)] == nil {
				inventories[NodeID(id)] = make(map[uint16]chain.ShardConfig)
			}
			inventories[NodeID(id)][uint16(number)] = chain.ShardConfig{Epoch: 1, State: chain.Active}
		}
	}
	l := &large{t, NewLeader(1, s, Options{}, 0), 0}
	for id := NodeID(1); id <= manyNodes; id++ {
		l.Inventory(l.now, Inventory{Node: id, Incarnation: uint64(id), Term: 1, Configs: inventories[id]})
	}
	l.heartbeats(0)
	l.Effects()
	return l
}

// heartbeats sends one heartbeat of every node except one.
func (l *large) heartbeats(but NodeID) {
	l.now += 10 * ms
	for id := NodeID(1); id <= manyNodes; id++ {
		if id != but {
			l.Heartbeat(l.now, Heartbeat{Node: id, Incarnation: uint64(id), Term: 1, Done: l.nodes[id].number})
		}
	}
}

// fail lets a node fail, and returns the change that follows.
func (l *large) fail(id NodeID) Change {
	for range 10 {
		l.heartbeats(id)
		l.Tick(l.now)
		for _, e := range l.Effects() {
			if store, ok := e.(Store); ok {
				return store.Change
			}
		}
	}
	l.Fatal("the failure is not noticed")
	return Change{}
}

// TestLeaderAtScale counts the work for a failed node in a cluster of 1,000 nodes and 65,536 shards. It depends on the
// node's shards, not on the size of the cluster. A heartbeat and a tick cost nothing.
func TestLeaderAtScale(t *testing.T) {
	l := newLarge(t)
	if s := l.Status(); s.FullyReplicated != manyShards {
		t.Fatalf("%+v", s)
	}
	if allocated := testing.AllocsPerRun(3, func() { l.heartbeats(0) }); allocated > 0 {
		t.Errorf("%v allocations for %d heartbeats", allocated, manyNodes)
	}
	if allocated := testing.AllocsPerRun(100, func() { l.now += ms / 10; l.Tick(l.now) }); allocated > 1 {
		t.Errorf("%v allocations for a tick", allocated)
	}
	const victim = 17
	had := len(l.nodes[victim].shards)
	c := l.fail(victim)
	if len(c.Shards) != had || len(c.Nodes) != 1 {
		t.Fatalf("%d shards and %d nodes change, the node had %d", len(c.Shards), len(c.Nodes), had)
	}
	l.Stored(l.now, c.Number, true)
	orders, configs, leaseWaits := 0, 0, 0
	for _, e := range l.Effects() {
		switch e := e.(type) {
		case Send:
			orders++
			configs += len(e.Order.Configs)
		case LeaseWait:
			leaseWaits += len(e.Nodes)
		}
	}
	if orders >= manyNodes/2 || configs != 3*had || leaseWaits != 1 { // two survivors freeze; the victim, if it lives, leaves
		t.Errorf("%d orders for %d configurations, %d lease waits; the node was in %d chains", orders, configs, leaseWaits, had)
	}
	l.heartbeats(victim)
	for controller := range 2 {
		l.LeaseLeft(l.now, fmt.Sprint("c", controller), c.Number, 0)
	}
	configs = 0
	for _, e := range l.Effects() {
		if send, ok := e.(Send); ok {
			configs += len(send.Order.Configs)
		}
	}
	if configs != 2*had {
		t.Errorf("%d configurations are activated, want %d", configs, 2*had)
	}
}

// BenchmarkNodeFails is the time from a failure's being noticed to the change that is to be stored, and from its being stored to
// the orders.
func BenchmarkNodeFails(b *testing.B) {
	l := newLarge(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		victim := NodeID(1 + b.N%manyNodes)
		for range 5 {
			l.heartbeats(victim)
		}
		b.StartTimer()
		l.Tick(l.now)
		var c Change
		for _, e := range l.Effects() {
			if store, ok := e.(Store); ok {
				c = store.Change
			}
		}
		l.Stored(l.now, c.Number, true)
		l.Effects()
		b.StopTimer()
		b.ReportMetric(float64(len(c.Shards)), "shards")
		l = newLarge(b)
		b.StartTimer()
	}
}
