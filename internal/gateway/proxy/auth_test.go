package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/netcraq/netcraq/internal/gateway/pages"
)

// authenticate makes a root and a user who may read and write "mine", and has etcd ask its clients who they are.
func authenticate(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	must(c.RoleAdd(ctx, "own"))(t)
	must(c.RoleGrantPermission(ctx, "own", "mine", "", clientv3.PermissionType(clientv3.PermReadWrite)))(t)
	for user, role := range map[string]string{"root": "root", "user": "own"} {
		if role == "root" {
			must(c.RoleAdd(ctx, role))(t)
		}
		must(c.UserAdd(ctx, user, "secret"))(t)
		must(c.UserGrantRole(ctx, user, role))(t)
	}
	must(c.AuthEnable(ctx))(t)
}

func openAs(t *testing.T, address, user string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Username: user, Password: "secret", DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestAuthIsNotBypassed has etcd ask its clients who they are while a gateway caches: a client with a token is answered by etcd at
// once, and no key is read from the chain once the session had to be extended.
func TestAuthIsNotBypassed(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	a := startCached(t, etcd, cluster, Cache{Lease: 2 * time.Second})
	must(a.client.Put(t.Context(), "secret", "1"))(t)
	must(a.client.Put(t.Context(), "mine", "1"))(t)
	a.hot(t, "secret")
	a.hot(t, "mine")
	authenticate(t, open(t, etcd))
	user := openAs(t, a.address, "user")
	if _, err := user.Get(t.Context(), "secret"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a user without permission: %v", err)
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-a.cache.Gone():
	case <-within.Done():
		t.Fatal("the cache goes on")
	}
	hits := a.cache.Stats().Hits
	for range 20 {
		if r, err := a.client.Get(t.Context(), "secret"); err == nil {
			t.Fatalf("a client without a token: %v", r)
		}
	}
	throughGateway(t, a.address)
	if now := a.cache.Stats().Hits; now != hits {
		t.Errorf("%d reads were answered from the chain", now-hits)
	}
	later := startCached(t, etcd, cluster, Cache{}).address // one that starts now does not cache
	throughGateway(t, later)
	for _, address := range []string{a.address, later} {
		c := pages.Client{Gateways: []string{address}, Timeout: time.Minute}
		if keys, _, err := c.Hottest(t.Context(), 9); err == nil || !strings.Contains(err.Error(), "etcd has authentication enabled") {
			t.Errorf("names of keys for a client without a token: %v, %v", keys, err)
		}
		if e, _, err := c.Explain(t.Context(), "secret"); err == nil || !strings.Contains(err.Error(), "etcd has authentication enabled") {
			t.Errorf("counters of a key for a client without a token: %v, %v", e, err)
		}
	}
}

// throughGateway uses an etcd that asks who its clients are.
func throughGateway(t *testing.T, address string) {
	t.Helper()
	user := openAs(t, address, "user")
	must(user.Put(t.Context(), "mine", "2"))(t)
	if r := must(user.Get(t.Context(), "mine"))(t); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "2" {
		t.Errorf("%v", r)
	}
	if _, err := user.Put(t.Context(), "secret", "2"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a user without permission: %v", err)
	}
	if r := must(openAs(t, address, "root").Get(t.Context(), "secret"))(t); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "1" {
		t.Errorf("%v", r)
	}
	if r, err := open(t, address).Get(t.Context(), "mine"); err == nil {
		t.Errorf("a client without a token: %v", r)
	}
}

// TestWritesWhenAuthIsEnabled: users' writes succeed as soon as authentication is enabled, although etcd refuses the
// guard of a write to users who may not read the gateway's session.
func TestWritesWhenAuthIsEnabled(t *testing.T) {
	for _, placed := range []bool{false, true} {
		t.Run(fmt.Sprint("placed ", placed), func(t *testing.T) {
			etcd, cluster := startEtcd(t), startChain(t, 3, 1)
			a := startCached(t, etcd, cluster, Cache{Lease: 2 * time.Second})
			must(a.client.Put(t.Context(), "mine", "1"))(t)
			must(a.client.Put(t.Context(), "secret", "1"))(t)
			if placed {
				a.hot(t, "mine")
			}
			authenticate(t, open(t, etcd))
			user := openAs(t, a.address, "user")
			compare := clientv3.Compare(clientv3.Version("mine"), ">", 0)
			for _, ops := range [][]clientv3.Op{
				{clientv3.OpPut("secret", "2")}, {clientv3.OpPut("mine", "2"), clientv3.OpGet("secret")},
			} {
				_, err := user.Txn(t.Context()).If(compare).Then(ops...).Else(clientv3.OpPut("mine", "3")).Commit()
				if !errors.Is(err, rpctypes.ErrPermissionDenied) {
					t.Errorf("a transaction without permission: %v", err)
				}
			}
			if _, err := user.Put(t.Context(), "secret", "2"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("a user without permission: %v", err)
			}
			select {
			case <-a.cache.Gone():
				t.Log("the gateway noticed before the first write")
			default:
			}
			r := must(user.Txn(t.Context()).If(compare).Then(clientv3.OpPut("mine", "2")).Else(clientv3.OpPut("mine", "3")).Commit())(t)
			if !r.Succeeded {
				t.Errorf("%v", r)
			}
			if r := must(user.Get(t.Context(), "mine"))(t); string(r.Kvs[0].Value) != "2" {
				t.Errorf("%v", r)
			}
			throughGateway(t, a.address)
		})
	}
}

// TestTokensDoNotWait: while calls wait for the sessions of other gateways, because authentication is enabled, clients get
// tokens, and users are managed.
func TestTokensDoNotWait(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	authenticate(t, open(t, etcd))
	a := startCached(t, etcd, cluster, Cache{Lease: time.Hour})
	<-a.cache.Gone()
	root := openAs(t, a.address, "root")
	if r := must(root.AuthStatus(t.Context()))(t); !r.Enabled || r.AuthRevision == 0 {
		t.Errorf("%v", r)
	}
	if r := must(root.UserList(t.Context()))(t); len(r.Users) != 2 || r.Header.Revision != 0 || r.Header.ClusterId == 0 {
		t.Errorf("%v", r)
	}
	within, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := root.Get(within, "mine"); err == nil {
		t.Errorf("a read did not wait: %v", r)
	}
}

// TestLocksPassByTheCache: a gateway whose cache ended executes locks itself. etcd would delete the key of a lock that is given up
// whenever that happens, when gateways cache again too.
func TestLocksPassByTheCache(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	a := startCached(t, etcd, cluster, Cache{Lease: 2 * time.Second})
	authenticate(t, open(t, etcd))
	<-a.cache.Gone()
	root := openAs(t, a.address, "root")
	lease := must(root.Grant(t.Context(), 60))(t)
	request := &v3lockpb.LockRequest{Name: []byte("l"), Lease: int64(lease.ID)}
	lock := must(v3lockpb.NewLockClient(root.ActiveConnection()).Lock(t.Context(), request))(t)
	if r := must(root.Get(t.Context(), string(lock.Key)))(t); len(r.Kvs) != 1 {
		t.Errorf("the key of the lock: %v", r)
	}
	page := must(http.Get("http://" + etcd + "/metrics"))(t)
	defer page.Body.Close()
	for lines := bufio.NewScanner(page.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "grpc_server_started_total") && strings.Contains(line, `"v3lockpb.Lock"`) && !strings.HasSuffix(line, " 0") {
			t.Errorf("etcd executed a lock: %s", line)
		}
	}
}
