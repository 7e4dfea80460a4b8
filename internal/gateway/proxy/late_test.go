package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// TestChainReachedLater: a gateway that starts before its chain serves from etcd, keys included that an earlier gateway
// placed, and caches once the chain is there. The controllers of a chain may run on the Kubernetes whose API server waits
// for the gateway.
func TestChainReachedLater(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	a := startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k", "1"))(t)
	a.hot(t, "k")
	late := new(objects.Late)
	s, _ := startServer(t, Options{Endpoints: []string{etcd}, Cache: &Cache{Chain: late, Placement: placement.Defaults()}})
	b := &cachedGateway{address: s.Addr().String(), cache: s.cache, client: open(t, s.Addr().String())}
	must(b.client.Put(t.Context(), "k", "2"))(t)
	for _, g := range []*cachedGateway{a, b} {
		if r := must(g.client.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != "2" {
			t.Errorf("after the write without the chain: %v", r)
		}
	}
	if err := s.NameChain("another"); err == nil || !strings.Contains(err.Error(), "another chain") {
		t.Errorf("another chain: %v", err)
	}
	if err := s.NameChain("test"); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	late.Open(c)
	if r := b.hot(t, "k"); string(r.Kvs[0].Value) != "2" {
		t.Errorf("with the chain: %v", r)
	}
}

// TestFirstGatewayBeforeItsChain: the first gateway of an etcd serves without a chain. Meanwhile a gateway of another chain comes
// and places a key. The first gateway goes on with etcd alone, takes part in the protocol of that chain, and refuses its own.
func TestFirstGatewayBeforeItsChain(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	late := new(objects.Late)
	s, _ := startServer(t, Options{Endpoints: []string{etcd}, Cache: &Cache{Chain: late, Placement: placement.Defaults()}})
	first := open(t, s.Addr().String())
	must(first.Put(t.Context(), "k", "0"))(t)
	isValue := func(c *clientv3.Client, value string, floor int64) (rev int64) {
		t.Helper()
		r := must(c.Get(t.Context(), "k"))(t)
		if string(r.Kvs[0].Value) != value || r.Header.Revision < floor {
			t.Fatalf("%v, and want %s at %d or later", r, value, floor)
		}
		return r.Header.Revision
	}
	rev := isValue(first, "0", 2)
	b := startCached(t, etcd, cluster, Cache{})
	b.hot(t, "k")
	for i := range 20 {
		value := fmt.Sprint(i)
		rev = max(rev, must(first.Put(t.Context(), "k", value))(t).Header.Revision)
		rev = isValue(b.client, value, rev)
		rev = isValue(first, value, rev)
	}
	if err := s.NameChain("another"); err == nil || !strings.Contains(err.Error(), "another chain") {
		t.Errorf("another chain: %v", err)
	}
}

// TestFirstGatewayNamesItsChain: the first gateway of an etcd caches once it has reached its chain, which no other gateway can
// replace from then on.
func TestFirstGatewayNamesItsChain(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	late := new(objects.Late)
	s, _ := startServer(t, Options{Endpoints: []string{etcd}, Cache: &Cache{Chain: late, Placement: placement.Defaults()}})
	a := &cachedGateway{address: s.Addr().String(), cache: s.cache, client: open(t, s.Addr().String())}
	must(a.client.Put(t.Context(), "k", "1"))(t)
	if err := s.NameChain("test"); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	late.Open(c)
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "1" {
		t.Errorf("with the chain: %v", r)
	}
	other, err := New(t.Context(), Options{
		Endpoints: []string{etcd}, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Cache: &Cache{Chain: c, ChainName: "another", Placement: placement.Defaults()},
	})
	if !errors.Is(err, engine.ErrOtherChain) {
		t.Errorf("%v, %v", other, err)
	}
}

// TestOutAndInAgain writes to etcd directly while no gateway runs, as an API server does that was taken off its gateway.
// The session of the last gateway may still last, and the directory still has its keys. The next gateway must not answer
// from objects of that time, and must cache the keys again.
func TestOutAndInAgain(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	direct := open(t, etcd)
	a := startCached(t, etcd, cluster, Cache{})
	for _, key := range []string{"changed", "deleted", "same"} {
		must(a.client.Put(t.Context(), key, "in"))(t)
		a.hot(t, key)
	}
	a.stop()
	must(direct.Put(t.Context(), "changed", "out"))(t)
	out := must(direct.Delete(t.Context(), "deleted"))(t).Header.Revision
	b := startCached(t, etcd, cluster, Cache{})
	for _, key := range []string{"changed", "deleted", "same"} {
		want := must(direct.Get(t.Context(), key))(t)
		for range 2 {
			r := b.hot(t, key)
			if fmt.Sprint(r.Kvs) != fmt.Sprint(want.Kvs) || r.Header.Revision < out {
				t.Errorf("%s: the chain answers %v, and etcd has %v", key, r, want)
			}
		}
	}
	if excluded := must(direct.Get(t.Context(), engine.OwnPrefix+"excluded/", clientv3.WithPrefix()))(t); excluded.Count > 0 {
		t.Errorf("not cached any more: %v", excluded.Kvs)
	}
}

// TestGatewayWithoutRoom: a gateway that may place nothing takes the keys of gateways that have ended out of the
// directory. Then clients may write to etcd directly beside it.
func TestGatewayWithoutRoom(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	direct := open(t, etcd)
	a := startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k", "in"))(t)
	a.hot(t, "k")
	a.stop()
	none := placement.Defaults()
	none.Capacity = 1
	b := startCached(t, etcd, cluster, Cache{Placement: none})
	for placed := int64(1); placed > 0; {
		must(b.client.Get(t.Context(), "k"))(t)
		placed = must(direct.Get(t.Context(), engine.OwnPrefix+"directory/", clientv3.WithPrefix(), clientv3.WithCountOnly()))(t).Count
	}
	must(direct.Put(t.Context(), "k", "out"))(t)
	for range 20 {
		if r := must(b.client.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != "out" {
			t.Fatalf("%v", r)
		}
	}
	if hits := b.cache.Stats().Hits; hits > 0 {
		t.Errorf("%d reads came from the chain", hits)
	}
}
