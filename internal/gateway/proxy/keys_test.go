package proxy

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// TestPagesOfKeys asks two gateways which keys their clients use, and why these are cached or not.
func TestPagesOfKeys(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	o := placement.Defaults()
	o.Excluded, o.Pinned = []string{"secret/"}, []string{"pinned/"}
	a, b := startCached(t, etcd, cluster, Cache{Placement: o}), startCached(t, etcd, cluster, Cache{Placement: o})
	c := pages.Client{Gateways: []string{a.address, b.address}, Timeout: time.Minute}
	must(a.client.Put(t.Context(), "hot", "value"))(t)
	a.hot(t, "hot")
	for range 5 {
		must(a.client.Get(t.Context(), "secret/key"))(t)
		must(b.client.Get(t.Context(), "hot"))(t)
	}
	a.hot(t, "pinned/key")
	for key, want := range map[string]string{
		"hot": "", "secret/key": "its prefix is excluded", "pinned/key": "its prefix is pinned", "unknown": "not among the keys",
		"/netcraq/gateway/chain": "own keys",
	} {
		list := must(c.Explain(t.Context(), key))(t)
		if len(list) != 2 || list[0].Gateway != a.address {
			t.Fatalf("%s: %+v", key, list)
		}
		e := list[0]
		if !strings.Contains(e.Reason, want) || e.Placed != (key == "hot" || key == "pinned/key") {
			t.Errorf("%s: %+v", key, e)
		}
	}
	keys := must(c.Hottest(t.Context(), 2))(t)
	if len(keys) != 2 || !keys[0].Placed || keys[0].ReadRate <= 0 || keys[0].HitShare <= 0 || keys[0].HitShare > 1 {
		t.Errorf("%+v", keys)
	}
	plain := pages.Client{Gateways: []string{startGateway(t, Options{Endpoints: []string{etcd}})}, Timeout: time.Minute}
	if _, err := plain.Hottest(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "caches nothing") {
		t.Errorf("a gateway without a cache: %v", err)
	}
}

// TestPinnedKeysArePlacedAtOnce: with an empty prefix, one read of a key is enough for its place.
func TestPinnedKeysArePlacedAtOnce(t *testing.T) {
	o := placement.Defaults()
	o.Pinned, o.Least = []string{""}, 1e9
	a := startCached(t, startEtcd(t), startChain(t, 3, 1), Cache{Placement: o})
	for _, key := range []string{"a", "b"} {
		must(a.client.Get(t.Context(), key))(t)
		for !a.cache.Explain(key).Placed {
			runtime.Gosched()
		}
		before := a.cache.Stats().Hits
		must(a.client.Get(t.Context(), key))(t)
		if a.cache.Stats().Hits == before {
			t.Errorf("%s: the second read was not answered from the chain", key)
		}
	}
}
