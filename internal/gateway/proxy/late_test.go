package proxy

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

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
	s, _ := serve(t, Options{Endpoints: []string{etcd}, Cache: &Cache{Chain: late, Placement: placement.Defaults()}})
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

// TestNoNameOfTheChain: the first gateway of an etcd needs the chain.
func TestNoNameOfTheChain(t *testing.T) {
	s, err := New(t.Context(), Options{
		Endpoints: []string{startEtcd(t)}, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Cache: &Cache{Chain: new(objects.Late), Placement: placement.Defaults()},
	})
	if !errors.Is(err, engine.ErrNoChain) {
		t.Errorf("%v, %v", s, err)
	}
}
