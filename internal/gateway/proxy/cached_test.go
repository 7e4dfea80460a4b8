package proxy

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// startChain runs a chain on sockets and returns its cluster.
func startChain(t *testing.T, nodes, shards int) *topology.Cluster {
	t.Helper()
	return softchain.Start(t, nodes, shards, 1000)
}

// cachedGateway is a gateway with a cache.
type cachedGateway struct {
	address string
	cache   *engine.Engine
	client  *clientv3.Client
	stop    func()
	server  *Server
}

// startCached serves with a cache until the test ends.
func startCached(t *testing.T, etcd string, cluster *topology.Cluster, o Cache) *cachedGateway {
	t.Helper()
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	o.Chain, o.ChainName = c, "test"
	if o.Placement.Capacity == 0 {
		o.Placement = placement.Defaults()
	}
	options := Options{Endpoints: []string{etcd}, Cache: &o}
	s, stop := startServer(t, options)
	return &cachedGateway{s.Addr().String(), s.cache, open(t, s.Addr().String()), stop, s}
}

// hot reads a key until the chain answers.
func (g *cachedGateway) hot(t *testing.T, key string) *clientv3.GetResponse {
	t.Helper()
	before := g.cache.Stats().Hits
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a gateway that has ended answers nothing
	defer cancel()
	var r *clientv3.GetResponse
	eventually(t, "a read of "+key+" from the chain", func() bool {
		r = must(g.client.Get(ctx, key))(t)
		return g.cache.Stats().Hits > before
	})
	return r
}

// eventually waits until something holds, and ends the test if it does not in two minutes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !holds(); runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// awaitKeys waits until etcd has a number of keys with a name.
func awaitKeys(t *testing.T, direct *clientv3.Client, key string, number int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d keys %s", number, key), func() bool {
		return len(must(direct.Get(t.Context(), key))(t).Kvs) == number
	})
}

func TestReadsFromTheChain(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 4)
	direct := open(t, etcd)
	a, b := startCached(t, etcd, cluster, Cache{}), startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k", "1"))(t)
	for i := range 20 {
		if r := a.hot(t, "k"); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != fmt.Sprint(i+1) {
			t.Fatalf("round %d: %v", i, r)
		}
		if r := b.hot(t, "k"); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != fmt.Sprint(i+1) {
			t.Fatalf("round %d at the other gateway: %v", i, r)
		}
		p := must(b.client.Put(t.Context(), "k", fmt.Sprint(i+2)))(t)
		r := must(a.client.Get(t.Context(), "k"))(t)
		if r.Header.Revision < p.Header.Revision || string(r.Kvs[0].Value) != fmt.Sprint(i+2) {
			t.Fatalf("round %d: a write at %d, then %v", i, p.Header.Revision, r)
		}
	}
	r, want := a.hot(t, "k"), must(direct.Get(t.Context(), "k"))(t)
	if got := r.Kvs[0]; got.String() != want.Kvs[0].String() || r.Count != 1 {
		t.Errorf("%v, and etcd says %v", r, want)
	}
	if r.Header.ClusterId != want.Header.ClusterId || r.Header.Revision > want.Header.Revision {
		t.Errorf("header %v, and etcd's is %v", r.Header, want.Header)
	}
	must(b.client.Delete(t.Context(), "k"))(t)
	if r := a.hot(t, "k"); len(r.Kvs) != 0 || r.Count != 0 {
		t.Errorf("deleted, and still %v", r)
	}
}

// TestGatewayStartedLater: a gateway that starts when keys are placed writes them with INTENT.
func TestGatewayStartedLater(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 4)
	a := startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k", "old"))(t)
	a.hot(t, "k")
	b := startCached(t, etcd, cluster, Cache{})
	must(b.client.Put(t.Context(), "k", "new"))(t)
	if r := must(a.client.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != "new" {
		t.Errorf("after the write: %v", r)
	}
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "new" {
		t.Errorf("from the chain: %v", r)
	}
}

// TestOwnWritesOfOneGateway: a gateway that is alone acknowledges nothing but what it found at its start, and that it
// has closed the directory then. It places keys by one write of the directory for a round.
func TestOwnWritesOfOneGateway(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	a := startCached(t, etcd, cluster, Cache{})
	const keys = 8
	for i := range keys {
		a.hot(t, fmt.Sprint("k/", i))
	}
	got := a.cache.OwnWrites()
	const beginning = 2 // the directory is closed and emptied
	directory := got["directory"] - beginning
	if got["session"] != 1 || got["bit"] != 1 || got["ack"] > 2 || directory <= 0 || directory > keys || len(got) != 4 {
		t.Errorf("writes: %v", got)
	}
}

func TestTransactionsOfPlacedKeys(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	a := startCached(t, etcd, cluster, Cache{})
	must(a.client.Put(t.Context(), "k/1", "one"))(t)
	a.hot(t, "k/1")
	a.hot(t, "k/2")
	old := a.hot(t, "k/1").Kvs[0].ModRevision
	txn := func(rev int64, value string) *clientv3.TxnResponse {
		return must(a.client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("k/1"), "=", rev)).
			Then(clientv3.OpPut("k/1", value), clientv3.OpPut("k/2", value)).Else(clientv3.OpGet("k/1")).Commit())(t)
	}
	if r := txn(old, "two"); !r.Succeeded || len(r.Responses) != 2 || r.Header.Revision <= old {
		t.Fatalf("%v", r)
	}
	if r := txn(old, "three"); r.Succeeded || string(r.Responses[0].GetResponseRange().Kvs[0].Value) != "two" {
		t.Fatalf("%v", r)
	}
	for _, key := range []string{"k/1", "k/2"} {
		if r := a.hot(t, key); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "two" {
			t.Errorf("%v", r)
		}
	}
	if r := must(a.client.Delete(t.Context(), "k/", clientv3.WithPrefix()))(t); r.Deleted != 2 {
		t.Fatalf("%v", r)
	}
	for _, key := range []string{"k/1", "k/2"} {
		if r := a.hot(t, key); len(r.Kvs) != 0 {
			t.Errorf("%v", r)
		}
	}
	lease := must(a.client.Grant(t.Context(), 60))(t)
	must(a.client.Put(t.Context(), "k/1", "leased", clientv3.WithLease(lease.ID)))(t)
	hits := a.cache.Stats().Hits
	if r := must(a.client.Get(t.Context(), "k/1"))(t); len(r.Kvs) != 1 || r.Kvs[0].Lease != int64(lease.ID) || a.cache.Stats().Hits != hits {
		t.Errorf("a key with a lease: %v", r)
	}
	must(a.client.Revoke(t.Context(), lease.ID))(t)
	if r := must(a.client.Get(t.Context(), "k/1"))(t); len(r.Kvs) != 0 {
		t.Errorf("its lease ended: %v", r)
	}
}

func TestHeaderRevision(t *testing.T) {
	for _, v := range []any{
		&pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: 1 << 63, MemberId: 7, Revision: 42, RaftTerm: 3}, Count: 1},
		&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 42}, WatchId: 1},
	} {
		data, err := newCodec().Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := revision(data, false); got != 42 {
			t.Errorf("%v: %d", v, got)
		}
		data.Free()
	}
}

// TestWritePastTheGateways has a client write a cached key in etcd directly: the gateways notice, and cache it no more.
func TestWritePastTheGateways(t *testing.T) {
	etcd := startEtcd(t)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	direct := open(t, etcd)
	must(a.client.Put(t.Context(), "k", "1"))(t)
	a.hot(t, "k")
	must(direct.Put(t.Context(), "k", "2"))(t)
	awaitKeys(t, direct, "/netcraq/gateway/excluded/k", 1)
	awaitKeys(t, direct, "/netcraq/gateway/directory/k", 0)
	hits := a.cache.Stats().Hits
	for range 100 {
		if r := must(a.client.Get(t.Context(), "k"))(t); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "2" {
			t.Fatalf("etcd has 2, and the gateway answers %v", r)
		}
	}
	if now := a.cache.Stats().Hits; now != hits {
		t.Errorf("%d reads of an excluded key were answered from the chain", now-hits)
	}
}

// TestWritePastTheGatewaysDuringAnother has a client write a cached key in etcd directly, after a gateway's write that etcd has
// executed and the gateway does not know of: the object cannot be read then, and gets the older value later.
func TestWritePastTheGatewaysDuringAnother(t *testing.T) {
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	forever := Cache{Lease: time.Hour} // another session would load the newest value, and hide the write
	a := startCached(t, etcd, cluster, forever)
	line := startLine(t, etcd)
	b := startCached(t, line.listener.Addr().String(), cluster, forever)
	direct := open(t, etcd)
	excluded := func(key string) { awaitKeys(t, direct, "/netcraq/gateway/excluded/"+key, 1) }
	for _, key := range []string{"k", "compared"} {
		must(a.client.Put(within, key, "1"))(t)
		a.hot(t, key)
		b.hot(t, key)
	}
	seen := direct.Watch(within, "k")
	release := line.hold()
	defer release()
	written := make(chan error, 1)
	go func() {
		_, err := b.client.Put(within, "k", "2")
		written <- err
	}()
	if r := <-seen; r.Err() != nil {
		t.Fatal(r.Err())
	}
	must(a.client.Put(within, "compared", "2"))(t)
	must(direct.Put(within, "k", "3"))(t)
	must(direct.Put(within, "compared", "3"))(t)
	excluded("compared") // and so k was compared too
	release()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	excluded("k")
}
