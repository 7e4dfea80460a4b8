package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// nextEpoch gives the nodes a newer epoch and returns its map.
func nextEpoch(t *testing.T, nodes *testCluster) *Cluster {
	t.Helper()
	newer := *nodes.cluster
	newer.Epoch++
	configure(t, nodes.planes, &newer)
	return &newer
}

func TestStaticMapIsOld(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	nextEpoch(t, nodes)
	_, err := c.Put(ctx, "k", nil)
	notMine := new(NotMineError)
	if !errors.Is(err, ErrNotMine) || !errors.As(err, &notMine) || notMine.ClientEpoch != 1 || notMine.NodeEpoch != 2 {
		t.Fatalf("put: %v", err)
	}
}

// A write waits for a head that is just starting: it answers, but has no configuration yet, or that of an older epoch.
func TestWriteWaitsForStart(t *testing.T) {
	for name, config := range map[string]func(older *Cluster) chain.ShardConfig{
		"no configuration": func(*Cluster) chain.ShardConfig { return chain.ShardConfig{} },
		"an older epoch":   func(older *Cluster) chain.ShardConfig { return older.ShardConfig("n1", 0) },
	} {
		nodes := startCluster(t, 2, 1)
		older := nodes.cluster
		newer := nextEpoch(t, nodes)
		configureHead := func(c chain.ShardConfig) {
			if err := nodes.planes[0].ConfigureAll(map[uint16]chain.ShardConfig{0: c}); err != nil {
				t.Error(err)
			}
		}
		for where, put := range map[string]func(*Client) (Result, error){
			"alone": func(c *Client) (Result, error) { return c.Put(soon(t), "k", nil) },
			"in a batch": func(c *Client) (Result, error) {
				o := c.Do(soon(t), []Op{PutOp("k", nil)})[0]
				return o.Result, o.Err
			},
		} {
			configureHead(config(older))
			c := newClient(t, Options{Cluster: newer, Timeout: 30 * time.Millisecond})
			_, err := c.Put(context.Background(), "k", nil)
			if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, ErrTimeout) || !errors.Is(err, ErrNotMine) {
				t.Errorf("%s, %s: put at a head that never starts: %v", name, where, err)
			}
			looks := 0
			c.bootTime = func() time.Duration { // the client looks when the write begins, and before it is sent again
				if looks++; looks == 3 {
					configureHead(newer.ShardConfig("n1", 0))
				}
				return 0
			}
			if r, err := put(c); err != nil || r.Attempts < 3 {
				t.Errorf("%s, %s: %+v, %v", name, where, r, err)
			}
		}
	}
}

// A node that lost its configuration does not keep a read from the others.
func TestOneNodeServesNothing(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster, ReadFrom: Spread}), soon(t)
	if _, err := c.Put(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := nodes.planes[1].ConfigureAll(map[uint16]chain.ShardConfig{0: chain.ShardConfig{}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if r, err := c.Get(ctx, "k"); err != nil || r.Node == nodes.cluster.Nodes[1].Name {
			t.Fatalf("get: %+v, %v", r, err)
		}
	}
	if _, err := c.Get(ctx, "k", From(Named(nodes.cluster.Nodes[1].Name))); !errors.Is(err, ErrNotMine) {
		t.Fatalf("get from the node: %v", err)
	}
}

// follower is a map that tests change.
type follower struct {
	mu       sync.Mutex
	newest   *Map
	watchers []func(*Map)
	stale    func() // called when a client says that its map is old
}

func newFollower(t *testing.T, c *Cluster) *follower {
	f := new(follower)
	f.set(t, c)
	return f
}

func (f *follower) set(t *testing.T, c *Cluster) {
	m, err := c.Map()
	if err != nil {
		t.Error(err)
		return
	}
	f.offer(m)
}

// whenStale has the clients' doubts answered with a newer map.
func (f *follower) whenStale(t *testing.T, newer *Cluster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = func() { f.set(t, newer) }
}

func (f *follower) offer(m *Map) {
	f.mu.Lock()
	f.newest = m
	watchers := f.watchers
	f.mu.Unlock()
	for _, changed := range watchers {
		changed(m)
	}
}

func (f *follower) Map() *Map {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

func (f *follower) Watch(changed func(*Map)) func() {
	f.mu.Lock()
	f.watchers = append(f.watchers, changed)
	f.mu.Unlock()
	changed(f.Map())
	return func() {}
}

// Keys: the clusters of these tests have no tags.
func (f *follower) Keys() *wire.Keyring { return nil }

func (f *follower) Stale(uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale != nil {
		go f.stale()
	}
}

// A client that meets a later epoch says that its map is old, and goes on with the next.
func TestNewerEpoch(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	resync(t, nodes.planes) // an ACK that meets the next epoch is lost
	f := newFollower(t, nodes.cluster)
	c, ctx := newClient(t, Options{Follow: f}), soon(t)
	newer := nextEpoch(t, nodes)
	f.whenStale(t, newer)
	r, err := c.Add(ctx, "counter", 1)
	if n, _ := r.Counter(); err != nil || n != 1 || r.Epoch != 2 {
		t.Fatalf("add: %+v, %v", r, err)
	}
	newest := nextEpoch(t, &testCluster{nodes.planes, newer})
	f.whenStale(t, newest)
	for i, o := range c.Do(ctx, []Op{AddOp("counter", 1), AddOp("counter", 1)}) {
		if o.Err != nil || o.Epoch != 3 {
			t.Fatalf("add %d: %+v", i, o)
		}
	}
}

// Writes in bundles that meet a later epoch are sent again alone. Their answers name the epoch, and the writes take effect
// once by the next map. The client gets that map after it has sent all writes alone, so each takes at least three attempts
// under any load.
func TestBundleMeetsNewerEpoch(t *testing.T) {
	const puts = 20
	w := newNetwork(t, 2, testNodeOptions(1))
	f := newFollower(t, w.cluster)
	o := patient(nil)
	o.Follow = f
	c := newClient(t, o)
	prove(t, c)
	newer := nextEpoch(t, &testCluster{w.planes, w.cluster})
	before := c.Traffic()
	alone := make(map[wire.Key]bool)
	w.set(faults{forge: func(datagram []byte, _ netip.AddrPort) { // called by the head's relay alone
		m := new(wire.Message)
		if wire.IsBundle(datagram) || wire.Decode(datagram, m) != wire.Accepted || alone[m.Key] {
			return
		}
		if alone[m.Key] = true; len(alone) == puts {
			f.set(t, newer)
		}
	}})
	var ops []Op
	for i := range puts {
		ops = append(ops, PutOp(fmt.Sprint("key ", i), nil))
	}
	for i, o := range c.Do(soon(t), ops) {
		if o.Err != nil || o.Version != 1 || o.Epoch != 2 || o.Attempts < 3 {
			t.Fatalf("put %d: %+v", i, o)
		}
	}
	if c.Traffic() == before {
		t.Error("no bundles were used")
	}
}

// A newer map ends the wait for an answer that the old one led to.
func TestMapIsPushed(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	gone := *nodes.cluster
	gone.Nodes = append([]Node{{Name: "dead", Addr: netip.MustParseAddrPort("127.66.0.4:1")}}, gone.Nodes...)
	gone.Chains = [][]string{{"dead", "n1", "n2"}}
	gone.Epoch = 1
	now := *nextEpoch(t, nodes)
	for name, put := range map[string]func(*Client) error{
		"alone":      func(c *Client) error { _, err := c.Put(soon(t), "k", nil); return err },
		"in a batch": func(c *Client) error { return c.Do(soon(t), []Op{PutOp("k", nil)})[0].Err },
	} {
		f := newFollower(t, &gone)
		c := newClient(t, Options{Follow: f, Attempt: time.Hour})
		c.bootTime = func() time.Duration { // the client looks when the write begins
			go f.set(t, &now)
			return 0
		}
		if err := put(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Maps that cannot come after the present one are not taken.
func TestMapsOfOthers(t *testing.T) {
	nodes := startCluster(t, 2, 4)
	f := newFollower(t, nodes.cluster)
	c := newClient(t, Options{Follow: f})
	for name, change := range map[string]func(*Map){
		"older":            func(m *Map) { m.Version = 0 },
		"same":             func(m *Map) { m.Version = 1 },
		"other shards":     func(m *Map) { m.ByShard = m.ByShard[:2] },
		"epoch goes back":  func(m *Map) { m.Chains = []topology.MapChain{{Members: m.Chains[0].Members, Learner: -1}} },
		"learner at tail":  func(m *Map) { m.Chains[0].Learner = 1 },
		"no such node":     func(m *Map) { m.Chains[0].Members = []int{0, 2} },
		"node twice":       func(m *Map) { m.Chains[0].Members = []int{0, 0} },
		"shard not served": func(m *Map) { m.ByShard[3] = 1 },
		"no address":       func(m *Map) { m.Nodes = []Node{{Name: "n1"}, {Name: "n2"}} },
	} {
		m, err := nodes.cluster.Map()
		if err != nil {
			t.Fatal(err)
		}
		m.Version = 2
		change(m)
		f.offer(m)
		if c.Map().Version != 1 {
			t.Fatalf("%s: the client took the map", name)
		}
	}
}

// If no node serves a shard, its reads and writes fail at once, and other shards are not affected.
func TestNoChain(t *testing.T) {
	nodes := startCluster(t, 2, 2)
	m, err := nodes.cluster.Map()
	if err != nil {
		t.Fatal(err)
	}
	m.Chains = append(m.Chains, topology.MapChain{Epoch: 1, Learner: -1, Lost: true})
	m.ByShard[1] = 1
	f := new(follower)
	f.offer(m)
	c := newClient(t, Options{Follow: f})
	served, unserved := "", ""
	for i := 0; served == "" || unserved == ""; i++ {
		key := fmt.Sprint(i)
		if where, err := c.Locate(key); err != nil {
			t.Fatal(err)
		} else if where.Shard == 0 {
			served = key
		} else {
			unserved = key
		}
	}
	if _, err := c.Get(soon(t), unserved); !errors.Is(err, ErrNoChain) {
		t.Error(err)
	}
	if _, err := c.Put(soon(t), unserved, nil); !errors.Is(err, ErrNoChain) || errors.Is(err, ErrOutcomeUnknown) {
		t.Error(err)
	}
	if _, err := c.Put(soon(t), served, nil); err != nil {
		t.Error(err)
	}
}

// A learner is asked no read, unless by its name.
func TestLearnerIsNotAsked(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	m, err := nodes.cluster.Map()
	if err != nil {
		t.Fatal(err)
	}
	m.Chains[0].Learner = 1
	f := new(follower)
	f.offer(m)
	c := newClient(t, Options{Follow: f})
	for _, from := range []ReadFrom{Nearest, Spread, Tail} {
		for range 50 {
			if r, err := c.Get(soon(t), "k", From(from)); !errors.Is(err, ErrNotFound) || r.Asked == "n2" {
				t.Fatalf("%v: %+v, %v", from, r, err)
			}
		}
	}
	if r, err := c.Get(soon(t), "k", From(Named("n2"))); !errors.Is(err, ErrNotFound) || r.Asked != "n2" {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A refusal is lost with the head that gave it: it does not count once an attempt went to a later epoch. An OK does.
func TestRefusalOfAnOldEpoch(t *testing.T) {
	cluster := clusterOf(1, netip.MustParseAddrPort("127.66.0.4:1"), netip.MustParseAddrPort("127.66.0.4:2"))
	c := newClient(t, Options{Cluster: cluster})
	op := CASOp("k", 1, nil)
	var k call
	at := c.start(t.Context(), true)
	begin(t, &k, &at, &op)
	now := time.Now()
	send := func(id uint64) {
		if _, _, ok := k.next(now, id, nil); !ok {
			t.Fatal(k.outcome.Err)
		}
	}
	send(1)
	newer := *cluster
	newer.Epoch++
	m, err := newer.Map()
	if err != nil {
		t.Fatal(err)
	}
	c.take(m)
	send(2)
	reply := wire.Message{Op: wire.OpReply, Request: 1, Key: k.key, Detail: uint16(wire.StatusCASFailed), Version: 5}
	if got := k.judge(now, cluster.Nodes[0].Addr, &reply); got != ignore {
		t.Errorf("a refusal of epoch 1 after an attempt in epoch 2: verdict %d", got)
	}
	ok := reply
	ok.Detail = uint16(wire.StatusOk)
	first, outcome := k, new(Outcome)
	first.outcome = outcome
	if got := first.judge(now, cluster.Nodes[1].Addr, &ok); got != done || outcome.Err != nil || outcome.Version != 5 {
		t.Errorf("an OK of epoch 1: verdict %d, %v", got, outcome.Err)
	}
	reply.Request = 2
	if got := k.judge(now, cluster.Nodes[0].Addr, &reply); got != done || !errors.Is(k.outcome.Err, ErrCASFailed) {
		t.Errorf("a refusal of epoch 2: verdict %d, %v", got, k.outcome.Err)
	}
}
