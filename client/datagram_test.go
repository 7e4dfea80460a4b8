package client

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// twoChains are the same nodes, those of the second chain in another order.
func twoChains(t *testing.T) *Client {
	t.Helper()
	var addrs []netip.AddrPort
	for port := range uint16(3) {
		addrs = append(addrs, netip.AddrPortFrom(netip.MustParseAddr("127.66.0.1"), 1+port))
	}
	cluster := clusterOf(2, addrs...)
	cluster.Chains = append(cluster.Chains, []string{"n1", "n3", "n2"})
	return newClient(t, Options{Cluster: cluster})
}

// keysOf are keys of one shard.
func keysOf(t *testing.T, c *Client, shard uint16, count int) []string {
	t.Helper()
	var keys []string
	for i := 0; len(keys) < count; i++ {
		key := fmt.Sprint("key ", i)
		at, err := c.Locate(key)
		if err != nil {
			t.Fatal(err)
		}
		if at.Shard == shard {
			keys = append(keys, key)
		}
	}
	return keys
}

// pack gives how many of some operations' first attempts are in each datagram. Bundles have proven to pass everywhere.
func pack(t *testing.T, c *Client, ops []Op, change func(*call)) []int {
	t.Helper()
	v := c.view.Load()
	for _, m := range v.nodes {
		m.ways[0].reads.answered()
	}
	for _, r := range v.routes {
		r.writes[0].answered()
	}
	out, at := newOutgoing(0), c.start(t.Context(), true)
	calls := make([]call, len(ops))
	for i := range ops {
		begin(t, &calls[i], &at, &ops[i])
		change(&calls[i])
		place, ok := calls[i].aim()
		if !ok || !out.add(item{slot: uint16(i), place: uint8(place)}, &calls[i], wire.ChainBytes, at.now) {
			t.Fatalf("operation %d: %v", i, calls[i].outcome.Err)
		}
	}
	var counts []int
	for i := range out.n {
		counts = append(counts, len(out.datagrams[i].items))
	}
	return counts
}

// begin begins the call of an operation.
func begin(t *testing.T, k *call, at *start, op *Op) {
	t.Helper()
	key, err := op.hashedKey()
	if err != nil {
		t.Fatal(err)
	}
	if outcome := new(Outcome); !k.begin(at, op, &key, outcome) {
		t.Fatal(outcome.Err)
	}
}

func TestDatagrams(t *testing.T) {
	c := twoChains(t)
	keys, others := keysOf(t, c, 0, 20), keysOf(t, c, 1, 20)
	ops := func(keys []string, op func(string) Op) []Op {
		var all []Op
		for _, key := range keys {
			all = append(all, op(key))
		}
		return all
	}
	get := func(key string) Op { return GetOp(key, From(Named("n2"))) }
	put := func(bytes int) func(string) Op {
		return func(key string) Op { return PutOp(key, make([]byte, bytes)) }
	}
	nothing := func(*call) {}
	ones := slices.Repeat([]int{1}, 20)
	for _, test := range []struct {
		name   string
		ops    []Op
		change func(*call)
		want   []int
	}{
		{"one", ops(keys[:1], get), nothing, []int{1}},
		{"reads", ops(keys, get), nothing, []int{14, 6}},
		{"reads of two chains", append(ops(keys[:3], get), ops(others[:3], get)...), nothing, []int{6}},
		{"reads of two nodes", append(ops(keys[:3], get), GetOp(keys[0], From(Named("n1")))), nothing, []int{3, 1}},
		{"writes", ops(keys, put(16)), nothing, []int{12, 8}},
		{"deletions", ops(keys, DeleteOp), nothing, []int{14, 6}},
		{"writes of two chains", append(ops(keys[:3], put(16)), ops(others[:4], put(16))...), nothing, []int{3, 4}},
		{"reads and writes", append(ops(keys[:3], put(16)), GetOp(keys[0], From(Named("n1")))), nothing, []int{3, 1}},
		{"a longer value among others", append(ops(keys[:4], put(16)), PutOp(keys[4], make([]byte, 300))),
			nothing, []int{4, 1}},
		{"long values", ops(keys, put(1000)), nothing, ones},
		{"additions", ops(keys, func(key string) Op { return AddOp(key, 1) }), nothing, ones},
		{"relaxed reads", ops(keys, func(key string) Op { return GetOp(key, Any()) }), nothing, ones},
		{"retries", ops(keys, get), func(k *call) { k.recent.add(attempt{}) }, ones},
		{"not yet proven", ops(keys[:16], get), func(k *call) {
			c.view.Load().nodes["n2"].ways[0].reads.proven = false
		}, []int{14, 1, 1}},
	} {
		if got := pack(t, c, test.ops, test.change); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// A datagram with room for one more takes nothing for which it would have to become longer than a datagram.
func TestDatagramLength(t *testing.T) {
	c := twoChains(t)
	keys := keysOf(t, c, 0, 30)
	out, at := newOutgoing(0), c.start(t.Context(), true)
	c.view.Load().routes[0].writes[0].answered()
	for i, key := range keys {
		var k call
		op := PutOp(key, make([]byte, 37*i%200))
		begin(t, &k, &at, &op)
		if _, ok := k.aim(); !ok || !out.add(item{}, &k, wire.ChainBytes, time.Now()) {
			t.Fatal("no room")
		}
	}
	for i := range out.n {
		d := &out.datagrams[i]
		if n := len(wire.NewBundle(nil, len(d.items), d.slotBytes)); n > wire.MaxMessageBytes ||
			len(d.items) > wire.MaxSlots {
			t.Errorf("%d messages in %d bytes", len(d.items), n)
		}
	}
}
