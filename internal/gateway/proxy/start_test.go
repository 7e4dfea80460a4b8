package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestStartBeforeEtcd: a gateway with a cache that starts before its etcd serves when etcd does, and caches.
func TestStartBeforeEtcd(t *testing.T) {
	etcd, peer := etcdtest.FreePort(t), etcdtest.FreePort(t)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	startEtcdAt(t, etcd, peer)
	must(a.client.Put(t.Context(), "k", "1"))(t)
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "1" {
		t.Errorf("%v", r)
	}
	a.stop() // before etcd, which would wait for it
}

// startTwo runs an etcd of two members, and returns the address of the first and a function that ends the second. That
// one returns a function that starts it again.
func startTwo(t *testing.T) (first string, end func() (start func())) {
	t.Helper()
	const names = "ab"
	var clients, peers, dirs, initial []string
	for i, name := range names {
		clients, peers, dirs = append(clients, etcdtest.FreePort(t)), append(peers, etcdtest.FreePort(t)), append(dirs, t.TempDir())
		initial = append(initial, fmt.Sprintf("%c=http://%s", name, peers[i]))
	}
	begin := func(i int) *embed.Etcd {
		return beginMember(t, clients[i], peers[i], func(c *embed.Config) {
			c.Name, c.Dir, c.InitialCluster = names[i:i+1], dirs[i], strings.Join(initial, ",")
			c.TickMs, c.ElectionMs = 20, 200
		})
	}
	one, two := begin(0), begin(1)
	closeTwo := sync.OnceFunc(two.Close)
	t.Cleanup(func() {
		one.Close()
		closeTwo()
	})
	<-one.Server.ReadyNotify()
	<-two.Server.ReadyNotify()
	return clients[0], func() func() {
		closeTwo()
		return func() { closeTwo = begin(1).Close }
	}
}

// TestStartWithoutLeader: a gateway with a cache that starts while etcd has no leader serves at once: what needs none is
// answered, and the rest fails with etcd's error. When etcd has a leader again, the gateway caches.
func TestStartWithoutLeader(t *testing.T) {
	etcd, end := startTwo(t)
	direct, needy := open(t, etcd), clientv3.WithRequireLeader(t.Context())
	must(direct.Put(t.Context(), "k", "1"))(t)
	start := end()
	eventually(t, "the member misses its leader", func() bool {
		_, err := direct.Put(needy, "lost", "1")
		return errors.Is(err, rpctypes.ErrNoLeader)
	})
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	if r := must(a.client.Get(t.Context(), "k", clientv3.WithSerializable()))(t); len(r.Kvs) != 1 || r.Header.Revision < 2 {
		t.Errorf("serializable: %v", r)
	}
	if r := must(a.client.Status(t.Context(), a.address))(t); r.Leader != 0 {
		t.Errorf("status: %v", r)
	}
	if _, err := a.client.Put(needy, "k", "2"); !errors.Is(err, rpctypes.ErrNoLeader) {
		t.Errorf("put: %v", err)
	}
	start()
	must(a.client.Put(t.Context(), "k", "3"))(t)
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "3" {
		t.Errorf("%v", r)
	}
	a.stop()
}

// TestReadsWithoutMajority: while etcd has no majority and nothing is placed, serializable reads are answered, also once the
// session of the gateway has expired.
func TestReadsWithoutMajority(t *testing.T) {
	etcd, end := startTwo(t)
	const lease = time.Second
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{Lease: lease})
	direct := open(t, etcd)
	for known := int64(0); known == 0; { // until it knows that nothing is placed
		known = ownAt(t, direct, "ack/").Count
	}
	must(a.client.Put(t.Context(), "k", "1"))(t)
	end()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for lost := time.Now(); time.Since(lost) < 2*lease; {
		r, err := a.client.Get(ctx, "k", clientv3.WithSerializable())
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%v after the majority was lost: %v, %v", time.Since(lost), r, err)
		}
	}
	a.stop()
}

// fill writes keys that begin with "fill" until etcd has no space.
func fill(t *testing.T, c *clientv3.Client) {
	t.Helper()
	for n := 0; ; n++ {
		_, err := c.Put(t.Context(), fmt.Sprint("fill", n), strings.Repeat("x", 100<<10))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStartWithoutSpace: a gateway with a cache that starts while etcd has no space deletes keys, and caches once the
// alarm is off.
func TestStartWithoutSpace(t *testing.T) {
	etcd := etcdtest.FreePort(t)
	startMember(t, etcd, etcdtest.FreePort(t), func(c *embed.Config) { c.QuotaBackendBytes = 1 << 20 })
	direct, ctx := open(t, etcd), t.Context()
	fill(t, direct)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	if _, err := a.client.Put(ctx, "k", "1"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("put: %v", err)
	}
	if r := must(a.client.Delete(ctx, "fill", clientv3.WithPrefix()))(t); r.Deleted == 0 {
		t.Errorf("delete: %v", r)
	}
	must(a.client.Compact(ctx, must(a.client.Get(ctx, "k"))(t).Header.Revision, clientv3.WithCompactPhysical()))(t)
	must(direct.Defragment(ctx, etcd))(t)
	must(direct.AlarmDisarm(ctx, &clientv3.AlarmMember{}))(t)
	a.hot(t, "k")
}

// TestStartWithoutSpaceBesideAnother: a gateway that starts while etcd has no space, and another gateway caches, answers
// reads.
func TestStartWithoutSpaceBesideAnother(t *testing.T) {
	etcd, chain := etcdtest.FreePort(t), startChain(t, 3, 1)
	startMember(t, etcd, etcdtest.FreePort(t), func(c *embed.Config) { c.QuotaBackendBytes = 1 << 20 })
	a := startCached(t, etcd, chain, Cache{})
	must(a.client.Put(t.Context(), "k", "1"))(t)
	a.hot(t, "k")
	fill(t, open(t, etcd))
	b := startCached(t, etcd, chain, Cache{})
	if r := must(b.client.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != "1" {
		t.Errorf("%v", r)
	}
}

// TestTinyRequests: an etcd whose limit of requests is too small for the gateway's own keys is served without a cache.
func TestTinyRequests(t *testing.T) {
	etcd := etcdtest.FreePort(t)
	startMember(t, etcd, etcdtest.FreePort(t), func(c *embed.Config) { c.MaxRequestBytes = 256 })
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	must(a.client.Put(t.Context(), "k", "1"))(t)
	if _, err := a.client.Put(t.Context(), "k", strings.Repeat("x", 1024)); !errors.Is(err, rpctypes.ErrRequestTooLarge) {
		t.Errorf("a long value: %v", err)
	}
	if r := must(a.client.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != "1" {
		t.Errorf("%v", r)
	}
}
