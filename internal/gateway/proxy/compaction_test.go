package proxy

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestCompactionOfPlacedKeys: a compaction through a gateway, or past it, changes no placed key. A read of a compacted
// revision is refused as by etcd, and none is answered from the chain.
func TestCompactionOfPlacedKeys(t *testing.T) {
	etcd, ctx := startEtcd(t), t.Context()
	direct, a := open(t, etcd), startCached(t, etcd, startChain(t, 3, 1), Cache{})
	for name, by := range map[string]*clientv3.Client{"through the gateway": a.client, "past it": direct} {
		first := must(a.client.Put(ctx, "k", "old"))(t).Header.Revision
		last := must(a.client.Put(ctx, "k", name))(t).Header.Revision
		a.hot(t, "k")
		must(by.Compact(ctx, last))(t)
		r := a.hot(t, "k")
		if len(r.Kvs) != 1 || string(r.Kvs[0].Value) != name || r.Kvs[0].ModRevision != last {
			t.Errorf("%s: %v, want revision %d", name, r, last)
		}
		if r, err := a.client.Get(ctx, "k", clientv3.WithRev(first)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("%s: revision %d is compacted: %v, %v", name, first, r, err)
		}
		if r := must(a.client.Get(ctx, "k", clientv3.WithRev(last)))(t); len(r.Kvs) != 1 || r.Kvs[0].ModRevision != last {
			t.Errorf("%s: revision %d: %v", name, last, r)
		}
	}
	if r := must(direct.Get(ctx, "/netcraq/gateway/excluded/", clientv3.WithPrefix()))(t); r.Count > 0 {
		t.Errorf("these count as written past the gateways: %v", r.Kvs)
	}
}
