package proxy

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// hidesAll deletes and lists everything through a gateway: the gateways' own keys stay, and are not shown.
func hidesAll(t *testing.T, c, direct *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	must(c.Put(ctx, "mine", "1"))(t)
	before := lasting(t, direct)
	if r := must(c.Get(ctx, "", clientv3.WithPrefix()))(t); keysOf(r) != "mine" {
		t.Errorf("everything is %q", keysOf(r))
	}
	if r := must(c.Txn(ctx).Then(clientv3.OpGet("", clientv3.WithPrefix())).Commit())(t); r.Responses[0].GetResponseRange().Count != 1 {
		t.Errorf("everything in a transaction: %v", r)
	}
	if r := must(c.Delete(ctx, "", clientv3.WithPrefix()))(t); r.Deleted != 1 {
		t.Errorf("deleted: %v", r)
	}
	after := lasting(t, direct)
	if before == 0 || after < before {
		t.Errorf("%d keys of gateways were there, and %d are left", before, after)
	}
}

// lasting counts the gateways' keys that do not end with a session.
func lasting(t *testing.T, direct *clientv3.Client) (n int) {
	t.Helper()
	for _, kv := range must(direct.Get(t.Context(), "/netcraq/gateway/", clientv3.WithPrefix()))(t).Kvs {
		if kv.Lease == 0 {
			n++
		}
	}
	return n
}

// TestEveryGatewayHides: a gateway without a cache hides the keys of those with one.
func TestEveryGatewayHides(t *testing.T) {
	etcd := startEtcd(t)
	startCached(t, etcd, startChain(t, 3, 1), Cache{})
	hidesAll(t, open(t, startGateway(t, Options{Endpoints: []string{etcd}})), open(t, etcd))
}

// TestAuthOnAndOff has etcd's authentication switched on until a gateway notices, and off again. While it is on, the gateway hides
// the gateways' own keys as before. Afterwards it begins anew, and caches.
func TestAuthOnAndOff(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	direct := open(t, etcd)
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	begin := func(lease time.Duration) (*Server, chan error) {
		s, err := New(t.Context(), Options{
			Listen: "127.0.0.1:0", Endpoints: []string{etcd}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Cache: &Cache{Chain: c, ChainName: "test", Placement: placement.Defaults(), Lease: lease},
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(context.WithoutCancel(t.Context())) }()
		return s, ended
	}
	a, aEnded := begin(2 * time.Second)
	authenticate(t, direct)
	<-a.cache.Gone()
	root := openAs(t, etcd, "root")
	hidesAll(t, openAs(t, a.Addr().String(), "root"), root)
	must(root.AuthDisable(t.Context()))(t)
	select {
	case err := <-aEnded:
		if !errors.Is(err, ErrAgain) {
			t.Errorf("the gateway ended: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the gateway does not begin anew within a minute")
	}
	again := startCached(t, etcd, cluster, Cache{})
	must(again.client.Put(t.Context(), "k", "2"))(t)
	if r := again.hot(t, "k"); string(r.Kvs[0].Value) != "2" {
		t.Errorf("%v", r)
	}
}

// TestAuthenticationRevision: authentication may have been on for a moment that a gateway did not notice, if etcd's
// authentication revision is another than before. The gateway then begins another session, so that it answers no read from
// an object that was placed before.
func TestAuthenticationRevision(t *testing.T) {
	etcd := startEtcd(t)
	direct, a := open(t, etcd), startCached(t, etcd, startChain(t, 3, 1), Cache{Lease: 2 * time.Second})
	must(a.client.Put(t.Context(), "k", "1"))(t)
	a.hot(t, "k")
	session := must(direct.Get(t.Context(), "/netcraq/gateway/session/", clientv3.WithPrefix()))(t)
	sessions := direct.Watch(t.Context(), "/netcraq/gateway/session/", clientv3.WithPrefix(), clientv3.WithRev(session.Header.Revision+1))
	must(direct.RoleAdd(t.Context(), "some"))(t) // which changes it, too
	made := false
	for !made {
		for _, e := range (<-sessions).Events {
			made = made || e.IsCreate() && string(e.Kv.Key) != string(session.Kvs[0].Key)
		}
	}
	if r := a.hot(t, "k"); string(r.Kvs[0].Value) != "1" {
		t.Errorf("%v", r)
	}
}
