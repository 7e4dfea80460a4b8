package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// prove has a bundle of reads and one of writes answered, so that bundles are used from then on.
func prove(t *testing.T, c *Client) {
	t.Helper()
	var ops []Op
	for i := range 4 {
		ops = append(ops, DeleteOp(fmt.Sprint("proof ", i)), GetOp(fmt.Sprint("proof ", i), From(Named("n1"))))
	}
	for c.Traffic().Bundled < uint64(len(ops)) {
		if err := soon(t).Err(); err != nil {
			t.Fatal("bundles stay without answers")
		}
		c.Do(soon(t), ops)
	}
}

// Most operations that start at the same time travel in bundles, and get the same results as single ones.
func TestBundles(t *testing.T) {
	nodes := startCluster(t, 3, 4)
	c, ctx := newClient(t, patient(nodes.cluster)), soon(t)
	prove(t, c)
	before := c.Traffic()
	var puts, swaps []Op
	var keys []string
	for i := range 200 {
		key := fmt.Sprint("key ", i)
		keys = append(keys, key)
		puts = append(puts, PutOp(key, []byte(key)))
		swaps = append(swaps, CASOp(key, uint64(i%2), []byte("new")))
	}
	for i, o := range c.Do(ctx, puts) {
		alone := o.Attempts > 1 // on a busy machine; else it is acknowledged by way of the head
		if o.Err != nil || o.Version != 1 || !alone && (o.Node != "n1" || o.Hops != 6) {
			t.Fatalf("put %d: %+v", i, o)
		}
	}
	for i, o := range c.GetMany(ctx, keys, From(Named("n1"))) {
		if o.Err != nil || string(o.Value) != keys[i] || o.Version != 1 {
			t.Fatalf("get %d: %+v", i, o)
		}
	}
	now := c.Traffic()
	if operations, bundles := now.Bundled-before.Bundled, now.Bundles-before.Bundles; operations < 300 ||
		operations < 4*bundles {
		t.Errorf("%d of 400 operations in %d bundles", operations, bundles)
	}
	for i, o := range c.Do(ctx, swaps) {
		var failed *CASFailedError
		if i%2 == 1 && (o.Err != nil || o.Version != 2) {
			t.Fatalf("swap %d: %+v", i, o)
		}
		if i%2 == 0 && (!errors.As(o.Err, &failed) || failed.Version != 1 || string(failed.Value) != keys[i]) {
			t.Fatalf("swap %d of another version: %+v", i, o)
		}
	}
}

// Replies longer than expected, and refusals, do not fit into a bundle: the node answers BUSY, and the client asks again
// with a single message.
func TestAloneAfterBundle(t *testing.T) {
	o := testNodeOptions(1)
	o.CellBytes, o.MaxObjects = 400, 100
	w := newNetwork(t, 2, o)
	c, ctx := newClient(t, Options{Cluster: w.cluster}), soon(t)
	prove(t, c)
	long := make([]byte, 400)
	var puts, others []Op
	var keys []string
	for i := range 90 {
		keys = append(keys, fmt.Sprint("key ", i))
		puts = append(puts, PutOp(keys[i], long))
		others = append(others, PutOp(fmt.Sprint("other ", i), []byte("short")))
	}
	for i, o := range c.Do(ctx, puts) {
		if o.Err != nil {
			t.Fatalf("put %d: %+v", i, o)
		}
	}
	for i, o := range c.GetMany(ctx, keys) {
		if o.Err != nil || !slices.Equal(o.Value, long) {
			t.Fatalf("get %d: %+v", i, o)
		}
	}
	if got := c.pipes.all[0].reads.bytes(); got < wire.VersionBytes+len(long) {
		t.Errorf("after long values the slot size for replies is %d", got)
	}
	full := 0
	for i, o := range c.Do(ctx, others) {
		switch {
		case errors.Is(o.Err, ErrFull):
			full++
		case o.Err != nil:
			t.Fatalf("put %d: %+v", i, o)
		}
	}
	if full != 90-(100-90-4) { // 4 objects prove bundles
		t.Errorf("%d writes found the nodes full", full)
	}
	tooLarge := slices.Repeat([]Op{PutOp("key 1", make([]byte, 401))}, 4)
	for _, o := range c.Do(ctx, tooLarge) {
		if !errors.Is(o.Err, ErrTooLarge) {
			t.Errorf("a value longer than cells: %v", o.Err)
		}
	}
}

// Where nodes do not answer bundles, as older ones do, everything is done without, and only now and then is one tried.
func TestNodesWithoutBundles(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	w.set(faults{unbundled: true})
	c, ctx := newClient(t, Options{Cluster: w.cluster, Timeout: time.Minute}), soon(t)
	check := func() {
		t.Helper()
		var ops []Op
		for i := range 500 {
			ops = append(ops, PutOp(fmt.Sprint("key ", i), nil), GetOp(fmt.Sprint("key ", i)))
		}
		begin, before := time.Now(), c.Traffic().Bundles
		for i, o := range c.Do(ctx, ops) {
			if o.Err != nil && !errors.Is(o.Err, ErrNotFound) {
				t.Fatalf("operation %d: %+v", i, o)
			}
		}
		// One way of writes and three of reads.
		if most := 4 * (1 + uint64(time.Since(begin)/minBundleBackoff)); c.Traffic().Bundles-before > most+
			4*lostInARow*batchMessages {
			t.Errorf("%d bundles", c.Traffic().Bundles-before)
		}
	}
	check()
	if n := c.Traffic().Bundled; n != 0 {
		t.Fatalf("%d answers in bundles", n)
	}
	// A way on which bundles passed, and do not any more: an older node comes back.
	v := c.view.Load()
	c.pipes.all[0].mu.Lock()
	v.routes[0].writes[0].answered()
	for _, m := range v.nodes {
		m.ways[0].reads.answered()
	}
	c.pipes.all[0].mu.Unlock()
	check()
	check()
	c.pipes.all[0].mu.Lock()
	defer c.pipes.all[0].mu.Unlock()
	if v.routes[0].writes[0].proven {
		t.Error("writes go on in bundles that nobody answers")
	}
}

// patient returns options of a client with timeouts so long that it repeats no request and stops no bundles on a busy
// machine.
func patient(cluster *Cluster) Options {
	return Options{Cluster: cluster, Attempt: time.Minute, Timeout: time.Minute, least: time.Minute}
}

// putAndGet writes a version of some keys and reads them, from any node or from the node given.
func putAndGet(t *testing.T, c *Client, keys int, version uint64, options ...ReadOption) {
	t.Helper()
	var puts []Op
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprint("key ", i))
		puts = append(puts, PutOp(names[i], fmt.Append(nil, version)))
	}
	for i, o := range c.Do(soon(t), puts) {
		if o.Err != nil || o.Version != version {
			t.Fatalf("put %d: %+v", i, o)
		}
	}
	for i, o := range c.GetMany(soon(t), names, options...) {
		if o.Err != nil || o.Version != version || string(o.Value) != fmt.Sprint(version) {
			t.Fatalf("get %d: %+v", i, o)
		}
	}
}

// Every write in a bundle happens exactly once, also if bundles are lost, repeated or reordered.
func TestBundlesOnBadNetwork(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	resync(t, w.planes)
	c := newClient(t, Options{Cluster: w.cluster, Attempt: 20 * time.Millisecond, ReadFrom: Spread})
	prove(t, c)
	w.set(badNetwork)
	for version := range uint64(5) {
		putAndGet(t, c, 100, version+1)
	}
}

// On a network that reorders, all operations stay in bundles. It loses none and repeats none, so that each has one answer
// whatever the load.
func TestBundlesOutOfOrder(t *testing.T) {
	const keys, rounds = 12, 10 // one datagram carries 12
	w := newNetwork(t, 3, testNodeOptions(1))
	c := newClient(t, patient(w.cluster))
	prove(t, c)
	before := c.Traffic().Bundled
	w.set(faults{delay: badNetwork.delay, longest: badNetwork.longest})
	for version := range uint64(rounds) {
		putAndGet(t, c, keys, version+1, From(Named("n2")))
	}
	if n := c.Traffic().Bundled - before; n != 2*keys*rounds {
		t.Errorf("%d of %d answers in bundles", n, 2*keys*rounds)
	}
}

// Reads of several chains share a bundle; if one of them goes to the tail of its chain, all come back from there.
func TestBundleOfTwoChains(t *testing.T) {
	planes := startNodes(t, 3, testNodeOptions(2))
	cluster := clusterOf(2, planes[0].Addr(), planes[1].Addr(), planes[2].Addr())
	cluster.Chains = [][]string{{"n1", "n2"}, {"n2", "n1", "n3"}}
	configure(t, planes, cluster)
	c, ctx := newClient(t, patient(cluster)), soon(t)
	prove(t, c)
	keys, others := keysOf(t, c, 0, 6), keysOf(t, c, 1, 6)
	for _, key := range slices.Concat(keys, others) {
		if _, err := c.Put(ctx, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := planes[2].Config(1)
	if err != nil {
		t.Fatal(err)
	}
	set := func(s chain.State) {
		config.State = s
		if err := planes[2].ConfigureAll(map[uint16]chain.ShardConfig{1: config}); err != nil {
			t.Fatal(err)
		}
	}
	set(chain.Frozen) // takes no UPDATE, so that the object stays dirty before the tail
	short := newClient(t, Options{Cluster: cluster, Attempt: 5 * time.Millisecond, Timeout: 30 * time.Millisecond})
	if _, err := short.Put(context.Background(), others[0], []byte("not done")); err == nil {
		t.Fatal("a write passed a frozen tail")
	}
	set(chain.Active)
	before := c.Traffic().Bundled
	all := slices.Concat(others, keys) // the first says which chain the bundle may go to
	for i, o := range c.GetMany(ctx, all, From(Named("n1"))) {
		if o.Err != nil || string(o.Value) != all[i] {
			t.Errorf("get %d: %+v", i, o)
		}
		if i >= len(others) && o.Node != "n3" {
			t.Errorf("get %d of the chain without n3 came from %s", i, o.Node)
		}
	}
	if n := c.Traffic().Bundled - before; n != uint64(len(all)) {
		t.Errorf("%d answers in the bundle", n)
	}
}

// A bundle from outside the cluster counts for nothing, nor does one that breaks B1 or B2.
func TestForgedBundles(t *testing.T) {
	w := newNetwork(t, 2, testNodeOptions(1))
	c, ctx := newClient(t, Options{Cluster: w.cluster}), soon(t)
	prove(t, c)
	keys := []string{"a", "b", "c"}
	for _, key := range keys {
		if _, err := c.Put(ctx, key, []byte("true")); err != nil {
			t.Fatal(err)
		}
	}
	stranger := w.listen(t)
	defer stranger.Close()
	w.set(faults{forge: func(datagram []byte, client netip.AddrPort) {
		if !wire.IsBundle(datagram) {
			return
		}
		asked := wire.Bundle(datagram)
		forged := wire.NewBundle(nil, asked.Count(), wire.SlotFor(100))
		for i := range asked.Count() {
			var m wire.Message
			encoded, ok := asked.Message(i)
			if !ok || wire.Decode(encoded, &m) != wire.Accepted {
				t.Error("a client sent a message that no node takes")
			}
			forged.Put(i, &wire.Message{Op: wire.OpReply, Shard: m.Shard, Epoch: 1, Request: m.Request, Key: m.Key, Version: 9,
				Value: []byte("false")})
		}
		_, err := stranger.WriteToUDPAddrPort(forged, client)
		longer := append(slices.Clone(forged), 0)
		_, other := w.fronts[0].WriteToUDPAddrPort(longer, client)
		damaged := slices.Clone(forged)
		for i := range asked.Count() {
			damaged[wire.BundleBytes+i*wire.SlotFor(100)]++
		}
		_, third := w.fronts[0].WriteToUDPAddrPort(damaged, client)
		if err := errors.Join(err, other, third); err != nil {
			t.Error(err)
		}
	}})
	before := c.Traffic().Bundled
	for range 10 {
		for i, o := range c.GetMany(ctx, keys, From(Named("n1"))) {
			if o.Err != nil || string(o.Value) != "true" {
				t.Errorf("get %d: %+v", i, o)
			}
		}
	}
	if c.Traffic().Bundled == before {
		t.Error("no bundles were used")
	}
}
