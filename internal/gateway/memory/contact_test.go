package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// withoutLeader is how long a gateway that is cut off may take until it says so, far beyond what it needs.
const withoutLeader = 2 * time.Minute

// TestCutOff: a gateway that no longer reaches the chain ends the streams that require a leader, and takes no calls that
// do. Other watches stay, as with etcd. The other gateway goes on.
func TestCutOff(t *testing.T) {
	cluster := startChain(t)
	o := Options{LockTTL: DefaultLockTTL}
	active := start(t, cluster, o)
	active.waitActive(t)
	for _, role := range []string{"follower", "active"} {
		t.Run(role, func(t *testing.T) {
			other := start(t, cluster, o)
			cut, left := other, active
			if role == "active" {
				cut, left = active, other
			}
			c, ctx := open(t, cut.address), clientv3.WithRequireLeader(t.Context())
			events := c.Watch(ctx, "k", clientv3.WithCreatedNotify())
			if r := <-events; !r.Created {
				t.Fatalf("the watch was not created: %v", r)
			}
			patient := c.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
			if r := <-patient; !r.Created {
				t.Fatalf("the watch was not created: %v", r)
			}
			lease := again(func() (*clientv3.LeaseGrantResponse, error) { return c.Grant(t.Context(), 3600) })(t)
			again(func() (*clientv3.LeaseKeepAliveResponse, error) { return c.KeepAliveOnce(ctx, lease.ID) })(t)

			cut.chain.Close() // nothing of the chain reaches this gateway any more
			expectNoLeader(t, events)
			if _, err := c.Get(ctx, "k", clientv3.WithSerializable()); !errors.Is(err, rpctypes.ErrNoLeader) {
				t.Errorf("a read that requires a leader: %v", err)
			}
			if _, err := c.KeepAliveOnce(ctx, lease.ID); err == nil {
				t.Error("a lease was renewed at a gateway without a leader")
			}
			must(c.Get(t.Context(), "k", clientv3.WithSerializable()))(t)
			select {
			case r := <-patient:
				t.Errorf("a watch that does not require a leader ended: %v", r)
			default:
			}
			again(func() (*clientv3.PutResponse, error) { return open(t, left.address).Put(ctx, "k", role) })(t)
		})
	}
}

// expectNoLeader waits for the end of a watch.
func expectNoLeader(t *testing.T, events clientv3.WatchChan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), withoutLeader)
	defer cancel()
	for {
		select {
		case r, ok := <-events:
			if !ok {
				t.Fatal("the watch ended without a reason")
			}
			if err := r.Err(); err != nil {
				if !errors.Is(err, rpctypes.ErrNoLeader) {
					t.Errorf("the watch ended with %v, want %v", err, rpctypes.ErrNoLeader)
				}
				return
			}
		case <-ctx.Done():
			t.Fatal("a watch that requires a leader is silent at a gateway that is cut off")
		}
	}
}
