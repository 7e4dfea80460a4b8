package proxy

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// TestRestoredEtcd has etcd lose what it had, as after the restore of an old backup at the same addresses. The gateway that runs ends,
// and the next one does not answer from what the chain holds of the other history.
func TestRestoredEtcd(t *testing.T) {
	const etcd, peer = "127.66.18.1:2379", "127.66.18.1:2380"
	end, cluster := startEtcdAt(t, etcd, peer), startChain(t, 3, 1)
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := New(t.Context(), Options{
		Listen: "127.0.0.1:0", Endpoints: []string{etcd}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Cache: &Cache{Chain: c, ChainName: "test", Placement: placement.Defaults()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	a := &cachedGateway{address: s.Addr().String(), cache: s.cache, client: open(t, s.Addr().String())}
	for range 20 {
		must(a.client.Put(t.Context(), "k", "of the future"))(t)
	}
	a.hot(t, "k")
	end()
	startEtcdAt(t, etcd, peer)
	if err := <-ended; !errors.Is(err, engine.ErrRestored) {
		t.Errorf("the gateway ended: %v", err)
	}
	b := startCached(t, etcd, cluster, Cache{})
	if r := b.hot(t, "k"); len(r.Kvs) != 0 {
		t.Errorf("etcd has no such key, and the gateway answers %v", r)
	}
	must(b.client.Put(t.Context(), "k", "now"))(t)
	if r := b.hot(t, "k"); string(r.Kvs[0].Value) != "now" {
		t.Errorf("%v", r)
	}
}

// TestBackupWithARaisedRevision: etcd goes on from a backup that has the gateway's session, and its revision was raised
// above all that were seen, as by etcdutl's --bump-revision. The gateway does not notice that, but its session was not
// extended for too long: so it reads no object of before.
func TestBackupWithARaisedRevision(t *testing.T) {
	const etcd, elsewhere, peer = "127.66.19.1:2379", "127.66.19.2:2379", "127.66.19.1:2380"
	dir, backup := t.TempDir(), t.TempDir()
	start := func(client, dir string) (end func()) {
		e, closed := startMember(t, client, peer, func(c *embed.Config) { c.Dir = dir })
		return func() {
			e.Server.HardStop() // sessions do not end first
			closed()
		}
	}
	end := start(etcd, dir)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	must(a.client.Put(t.Context(), "k", "in the backup"))(t)
	a.hot(t, "k")
	end()
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	end = start(etcd, dir)
	must(a.client.Put(t.Context(), "k", "lost"))(t)
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "lost" {
		t.Fatal(r)
	}
	end()
	away := time.After(engine.DefaultLease)
	end = start(elsewhere, backup)
	direct := open(t, elsewhere)
	for range 30 { // and the lease lasts
		must(direct.Put(t.Context(), "other", "raises the revision"))(t)
	}
	end()
	<-away // as long as a session lasts
	start(etcd, backup)
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "in the backup" {
		t.Errorf("etcd was restored, and the gateway answers %v", r)
	}
}
