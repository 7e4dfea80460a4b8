package proxy

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
)

// TestRestoredEtcd has etcd lose what it had, as after the restore of an old backup at the same addresses. The gateway that runs ends,
// and the next one does not answer from what the chain holds of the other history.
func TestRestoredEtcd(t *testing.T) {
	const etcd, peer = "127.66.18.1:2379", "127.66.18.1:2380"
	end, cluster := startEtcdAt(t, etcd, peer), startChain(t, 3, 1)
	a, ended := startCachedOnce(t, etcd, cluster)
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

// startCachedOnce serves with a cache until etcd is found restored.
func startCachedOnce(t *testing.T, etcd string, cluster *topology.Cluster) (g *cachedGateway, ended <-chan error) {
	t.Helper()
	c := must(client.New(client.Options{Cluster: cluster}))(t)
	t.Cleanup(func() { c.Close() })
	s := must(New(t.Context(), Options{
		Listen: "127.0.0.1:0", Endpoints: []string{etcd}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Cache: &Cache{Chain: c, ChainName: "test", Placement: placement.Defaults()},
	}))(t)
	serving, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		serving <- s.Serve(t.Context())
	}()
	t.Cleanup(func() { <-over }) // it logs until then
	return &cachedGateway{address: s.Addr().String(), cache: s.cache, client: open(t, s.Addr().String())}, serving
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

// TestNewTimelineWaitsForSessions: a gateway finds etcd's revision below one that it saw, and begins another timeline,
// while another gateway has a session of the old one, under which it answers reads from the chain. The first removes no
// objects, since the chain does not answer. Gateways of the new timeline do not write before that session has ended.
func TestNewTimelineWaitsForSessions(t *testing.T) {
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	seen, network := between(t, cluster, seedtest.Seed(t), 0)
	line, direct := startLine(t, etcd), open(t, etcd)
	a := startCached(t, line.listener.Addr().String(), cluster, Cache{Lease: time.Hour})
	must(a.client.Put(within, "k", "1"))(t)
	a.hot(t, "k")
	b, ended := startCachedOnce(t, etcd, seen)
	b.hot(t, "k")

	release := line.hold()
	defer release()
	network.set(1)
	b.cache.Saw(&pb.ResponseHeader{Revision: 1 << 20})
	if err := <-ended; !errors.Is(err, engine.ErrRestored) {
		t.Fatal(err)
	}
	c, written := startCached(t, etcd, cluster, Cache{}), make(chan error, 1)
	go func() {
		_, err := c.client.Put(within, "k", "2")
		written <- err
	}()
	eventually(t, "the directory is closed", func() bool {
		select {
		case err := <-written:
			t.Fatalf("2 is written, %v, and then the other gateway answers %s", err, valueOf(a.client.Get(within, "k")))
		default:
		}
		return strings.HasPrefix(string(ownAt(t, direct, core.CountName).Kvs[0].Value), "closed")
	})
	if value := valueOf(a.client.Get(within, "k")); value != "1" {
		t.Errorf("the first gateway answers %s", value)
	}
	release()
	a.stop()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if r := c.hot(t, "k"); string(r.Kvs[0].Value) != "2" {
		t.Errorf("2 is written, and a gateway answers %s", r.Kvs[0].Value)
	}
}
