package memory

import (
	"context"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// lockClient is a client of etcd's services for locks and elections at a gateway.
type lockClient struct {
	v3lockpb.LockClient
	v3electionpb.ElectionClient
	*clientv3.Client
}

func (g *gateway) locksOf(t *testing.T) *lockClient {
	t.Helper()
	c := open(t, g.address)
	return &lockClient{v3lockpb.NewLockClient(c.ActiveConnection()), v3electionpb.NewElectionClient(c.ActiveConnection()), c}
}

// lease makes a lease with a number, which decides the names of keys.
func (c *lockClient) lease(t *testing.T, id int64) {
	t.Helper()
	q := &pb.LeaseGrantRequest{ID: id, TTL: 600}
	must(pb.NewLeaseClient(c.ActiveConnection()).LeaseGrant(t.Context(), q))(t)
}

// waits locks under a lease. It returns when the lock's key is there.
func (c *lockClient) waits(ctx context.Context, t *testing.T, name string, id int64) (ended chan error) {
	t.Helper()
	c.lease(t, id)
	ended = make(chan error, 1)
	go func() {
		_, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte(name), Lease: id})
		ended <- err
	}()
	c.awaitKeys(t, fmt.Sprintf("%s/%x", name, id), 1)
	return ended
}

// awaitKeys waits until a number of keys have a prefix.
func (c *lockClient) awaitKeys(t *testing.T, prefix string, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d keys below %s", n, prefix), func() bool {
		return must(c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly()))(t).Count == n
	})
}

// TestLocksAsEtcd compares the errors of locks and elections with etcd's.
func TestLocksAsEtcd(t *testing.T) {
	_, b := pair(t)
	etcdtest.LocksAlike(t, b.address, etcdtest.Start(t, 1, nil).Members[0].ClientURL())
}

// TestLocks: one client after the other has a lock, whichever gateways they use. One that is given up leaves no key.
func TestLocks(t *testing.T) {
	a, b := pair(t)
	for _, held := range []*lockClient{a.locksOf(t), b.locksOf(t)} {
		ctx := t.Context()
		for _, other := range []*lockClient{a.locksOf(t), b.locksOf(t)} {
			lock := must(held.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")}))(t) // under a lease of its own
			given, cancel := context.WithCancel(ctx)
			gone := other.waits(given, t, "l", 1)
			next := other.waits(ctx, t, "l", 2)
			cancel()
			if err := <-gone; status.Code(err) != codes.Canceled {
				t.Errorf("given up: %v", err)
			}
			other.awaitKeys(t, "l/", 2)
			must(held.Unlock(ctx, &v3lockpb.UnlockRequest{Key: lock.Key}))(t)
			if err := <-next; err != nil {
				t.Errorf("the next one: %v", err)
			}
			for _, id := range []clientv3.LeaseID{1, 2} {
				must(other.Revoke(ctx, id))(t)
			}
		}
	}
}

// TestManyLocks: calls that wait for a lock do not keep the others of their connection from being answered.
func TestManyLocks(t *testing.T) {
	a := start(t, startChain(t), Options{})
	a.waitActive(t)
	c := a.locksOf(t)
	const more = 150 // than are answered at a time
	ended := make(chan error, more)
	for id := range int64(more) {
		c.lease(t, id+1)
		go func() {
			_, err := c.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: id + 1})
			ended <- err
		}()
	}
	c.awaitKeys(t, "l/", more)
	held := must(c.Get(t.Context(), "l/", clientv3.WithFirstCreate()...))(t)
	must(c.Delete(t.Context(), string(held.Kvs[0].Key)))(t)
	for range 2 { // the first one, and the next
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestLockAfterTakeover: a client waits for a lock while the active gateway is gone for ever.
func TestLockAfterTakeover(t *testing.T) {
	cluster := startChain(t)
	a := start(t, cluster, Options{})
	a.waitActive(t)
	b := start(t, cluster, Options{})
	c := b.locksOf(t)
	c.lease(t, 1)
	lock := must(c.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: 1}))(t)
	next := c.waits(t.Context(), t, "l", 2)
	a.kill()
	again(func() (*v3lockpb.UnlockResponse, error) {
		return c.Unlock(t.Context(), &v3lockpb.UnlockRequest{Key: lock.Key})
	})(t)
	if err := <-next; err != nil {
		t.Error(err)
	}
}

// TestLockEndsWithItsGateway: a client that waits for a lock is told that it has to ask another gateway, where it has its
// place in the queue again.
func TestLockEndsWithItsGateway(t *testing.T) {
	a, b := pair(t)
	ca, cb := a.locksOf(t), b.locksOf(t)
	ca.lease(t, 1)
	lock := must(ca.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: 1}))(t)
	next := cb.waits(t.Context(), t, "l", 2)
	b.stop()
	if err := <-next; status.Code(err) != codes.Unavailable {
		t.Errorf("the gateway ended: %v", err)
	}
	must(ca.Unlock(t.Context(), &v3lockpb.UnlockRequest{Key: lock.Key}))(t)
	must(ca.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: 2}))(t)
}

// TestElections: a leader is observed at every gateway until it resigns.
func TestElections(t *testing.T) {
	a, b := pair(t)
	ca, cb := a.locksOf(t), b.locksOf(t)
	for i, c := range []*lockClient{ca, cb} {
		ctx, name := clientv3.WithRequireLeader(t.Context()), fmt.Appendf(nil, "seat%d", i)
		c.lease(t, int64(i+1))
		q := &v3electionpb.CampaignRequest{Name: name, Lease: int64(i + 1), Value: []byte("1")}
		leader := must(c.Campaign(ctx, q))(t).Leader
		for _, other := range []*lockClient{ca, cb} {
			seen := must(other.Observe(ctx, &v3electionpb.LeaderRequest{Name: name}))(t)
			for n := range 3 {
				value := fmt.Sprint(n)
				must(c.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: leader, Value: []byte(value)}))(t)
				for {
					if got := string(must(seen.Recv())(t).Kv.Value); got == value {
						break
					}
				}
				r := must(other.Leader(ctx, &v3electionpb.LeaderRequest{Name: name}))(t)
				if string(r.Kv.Value) != value || string(r.Kv.Key) != string(leader.Key) {
					t.Errorf("%v leads; want %s", r.Kv, value)
				}
			}
		}
		must(c.Resign(ctx, &v3electionpb.ResignRequest{Leader: leader}))(t)
		if r, err := c.Leader(ctx, &v3electionpb.LeaderRequest{Name: name}); err == nil {
			t.Errorf("%v leads after it resigned", r.Kv)
		}
	}
}
