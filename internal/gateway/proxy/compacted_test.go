package proxy

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestCompactionsBesideACache compacts etcd through a gateway and past it, while two gateways answer a key from the
// chain. The key stays placed, its reads stay right, and compacted revisions are refused as by etcd.
func TestCompactionsBesideACache(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 4)
	direct := open(t, etcd)
	a, b := startCached(t, etcd, cluster, Cache{}), startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k", "0"))(t)
	a.hot(t, "k")
	b.hot(t, "k")
	for i, by := range []*clientv3.Client{a.client, direct, b.client, direct} {
		want := fmt.Sprint(i + 1)
		before := must(b.client.Put(t.Context(), "k", want))(t).Header.Revision
		must(a.client.Put(t.Context(), "other", want))(t) // etcd keeps the newest revision of a key
		must(by.Compact(t.Context(), before+1, clientv3.WithCompactPhysical()))(t)
		for _, g := range []*cachedGateway{a, b} {
			r := g.hot(t, "k")
			if len(r.Kvs) != 1 || string(r.Kvs[0].Value) != want || r.Kvs[0].ModRevision != before {
				t.Errorf("compaction %d: %v, want %s of %d", i, r.Kvs, want, before)
			}
			if _, err := g.client.Get(t.Context(), "k", clientv3.WithRev(before)); !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("compaction %d: a read at %d: %v", i, before, err)
			}
		}
	}
	awaitKeys(t, direct, "/netcraq/gateway/excluded/k", 0)
}
