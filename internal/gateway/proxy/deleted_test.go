package proxy

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
)

// own reads the gateways' own keys with a prefix, straight from etcd.
func ownAt(t *testing.T, direct *clientv3.Client, prefix string) *clientv3.GetResponse {
	t.Helper()
	return must(direct.Get(t.Context(), engine.OwnPrefix+prefix, clientv3.WithPrefix()))(t)
}

// TestOwnKeysAreDeleted: somebody deletes keys of the gateways straight at etcd. A session whose key or bit is gone ends, and
// another begins. The name of the chain is written again, and reads are hits again.
func TestOwnKeysAreDeleted(t *testing.T) {
	etcd := startEtcd(t)
	g := startCached(t, etcd, startChain(t, 3, 4), Cache{})
	direct := open(t, etcd)
	must(g.client.Put(t.Context(), "k", "1"))(t)
	g.hot(t, "k")
	for _, prefix := range []string{core.SessionPrefix, "bit/"} {
		session := ownAt(t, direct, core.SessionPrefix).Kvs[0]
		if n := must(direct.Delete(t.Context(), engine.OwnPrefix+prefix, clientv3.WithPrefix()))(t).Deleted; n != 1 {
			t.Fatalf("%s: %d keys", prefix, n)
		}
		eventually(t, "another session", func() bool {
			now := ownAt(t, direct, core.SessionPrefix).Kvs
			return len(now) == 1 && string(now[0].Key) != string(session.Key) && len(ownAt(t, direct, "bit/").Kvs) == 1
		})
		g.hot(t, "k")
	}
	was := ownAt(t, direct, "chain").Kvs[0]
	must(direct.Delete(t.Context(), string(was.Key)))(t)
	awaitKeys(t, direct, string(was.Key), 1)
	if now := ownAt(t, direct, "chain").Kvs[0]; string(now.Value) != string(was.Value) {
		t.Errorf("the chain's name is %q, and was %q", now.Value, was.Value)
	}
	g.hot(t, "k")
}

// TestNamelessChain: while a gateway has a session, another one does not name the chain, although nobody has.
func TestNamelessChain(t *testing.T) {
	etcd := startEtcd(t)
	direct := open(t, etcd)
	must(direct.Put(t.Context(), engine.OwnPrefix+core.SessionPrefix+"other.1", ""))(t)
	g := startCached(t, etcd, startChain(t, 3, 4), Cache{})
	if n := ownAt(t, direct, "chain").Count; n != 0 {
		t.Error("the chain has a name")
	}
	must(direct.Delete(t.Context(), engine.OwnPrefix+core.SessionPrefix+"other.1"))(t)
	g.hot(t, "k")
}

// TestSessionIsDeletedWhileItsWatchIsLate: somebody deletes the key of a session straight at etcd, and etcd's answers
// to its gateway are held up, so that it answers reads from the chain still. A gateway without the chain must not write
// before the first one knows.
func TestSessionIsDeletedWhileItsWatchIsLate(t *testing.T) {
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	seen, network := between(t, cluster, seedtest.Seed(t), 0)
	line, direct := startLine(t, etcd), open(t, etcd)
	a := startCached(t, line.listener.Addr().String(), cluster, Cache{Lease: time.Hour})
	must(a.client.Put(within, "k", "1"))(t)
	a.hot(t, "k")
	session := ownAt(t, direct, core.SessionPrefix).Kvs[0]
	b := startCached(t, etcd, seen, Cache{})
	b.hot(t, "placed by b") // who places a key meets all sessions
	b.hot(t, "k")
	a.hot(t, "k")

	release := line.hold()
	defer release()
	must(direct.Delete(within, string(session.Key)))(t)
	network.set(1)
	written := make(chan error, 1)
	go func() {
		_, err := b.client.Put(within, "k", "2")
		written <- err
	}()
	eventually(t, "the session's key is there again", func() bool {
		select {
		case err := <-written:
			r := must(a.client.Get(within, "k"))(t)
			t.Fatalf("2 is written, %v, and then the other gateway answers %s", err, r.Kvs[0].Value)
		default:
		}
		now := must(direct.Get(within, string(session.Key)))(t).Kvs
		return len(now) == 1 && now[0].Lease == session.Lease && string(now[0].Value) == string(session.Value)
	})
	release()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if r := must(a.client.Get(within, "k"))(t); string(r.Kvs[0].Value) != "2" {
		t.Errorf("2 is written, and the other gateway answers %s", r.Kvs[0].Value)
	}
}

// TestEntryIsDeletedWhileAWatchIsLate: somebody deletes the entry of a key in the directory straight at etcd, and
// etcd's answers to a gateway are held up, so that it answers reads from the chain still. A gateway that has seen
// it marks the object before it writes. One that begins does not write before the first one knows. Then keys are
// placed again.
func TestEntryIsDeletedWhileAWatchIsLate(t *testing.T) {
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	line, direct := startLine(t, etcd), open(t, etcd)
	a := startCached(t, line.listener.Addr().String(), cluster, Cache{Lease: time.Hour})
	b := startCached(t, etcd, cluster, Cache{})
	must(b.client.Put(within, "k", "1"))(t)
	b.hot(t, "k")
	a.hot(t, "k")

	release := line.hold()
	defer release()
	must(direct.Delete(within, engine.OwnPrefix+core.DirectoryPrefix+"k"))(t)
	eventually(t, "the directory is closed", func() bool {
		return strings.HasPrefix(string(ownAt(t, direct, core.CountName).Kvs[0].Value), "closed")
	})
	must(b.client.Put(within, "k", "2"))(t)
	got := make(chan string, 1)
	before := a.cache.Stats()
	go func() { got <- valueOf(a.client.Get(within, "k")) }()
	eventually(t, "the other gateway reads", func() bool { return a.cache.Stats() != before || len(got) > 0 })
	c, written := startCached(t, etcd, cluster, Cache{}), make(chan error, 1)
	go func() {
		_, err := c.client.Put(within, "k", "3")
		written <- err
	}()
	eventually(t, "the third gateway has a session", func() bool {
		return ownAt(t, direct, core.SessionPrefix).Count == 3
	})
	if len(written) > 0 {
		t.Fatalf("it writes and cannot know what is placed: %v", <-written)
	}
	release()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if value := <-got; value != "2" && value != "3" {
		t.Errorf("2 is written, and the other gateway answers %q", value)
	}
	for _, g := range []*cachedGateway{a, b, c} {
		if r := g.hot(t, "k"); string(r.Kvs[0].Value) != "3" {
			t.Errorf("3 is written, and a gateway answers %s", r.Kvs[0].Value)
		}
	}
}

// TestAllKeysAreDeletedWhileAWatchIsLate: a client of etcd deletes all keys of the gateways. etcd's answers to the first
// gateway are held up, so that it still answers reads from the chain. A gateway that begins neither writes nor shows the
// state of etcd before the session of the first one ends.
func TestAllKeysAreDeletedWhileAWatchIsLate(t *testing.T) {
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	line, direct := startLine(t, etcd), open(t, etcd)
	a := startCached(t, line.listener.Addr().String(), cluster, Cache{Lease: time.Hour})
	must(a.client.Put(within, "k", "1"))(t)
	a.hot(t, "k")

	release := line.hold()
	defer release()
	must(direct.Delete(within, engine.OwnPrefix, clientv3.WithPrefix()))(t)
	cache := &Cache{Chain: new(objects.Late), Placement: placement.Defaults()}
	s, _ := startServer(t, Options{Endpoints: []string{etcd}, Cache: cache})
	b := open(t, s.Addr().String())
	short, end := context.WithTimeout(within, 2*time.Second)
	defer end()
	shown := make(chan error, 1)
	go func() {
		_, err := b.Get(short, "k")
		shown <- err
	}()
	if _, err := b.Put(short, "k", "2"); err == nil {
		t.Errorf("2 is written, and the other gateway answers %q", valueOf(a.client.Get(within, "k")))
	}
	if err := <-shown; err == nil {
		t.Error("etcd's revision is shown, and the other gateway answers with an earlier one")
	}
	if value := valueOf(direct.Get(within, "k")); value != "1" {
		t.Errorf("etcd has %q", value)
	}
	release()
	eventually(t, "a write when the session has ended", func() bool {
		_, err := b.Put(within, "k", "3")
		return err == nil
	})
	if value := valueOf(a.client.Get(within, "k")); value != "3" {
		t.Errorf("3 is written, and the other gateway answers %q", value)
	}
}

// valueOf is the value in an answer; an error is its text.
func valueOf(r *clientv3.GetResponse, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(r.Kvs[0].Value)
}
