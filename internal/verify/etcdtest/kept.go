package etcdtest

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Kept is what servers have acknowledged. The zero value is nothing.
type Kept struct {
	keys     int
	revision int64
}

// Use expects all keys at an endpoint, at the last revision, and all their changes in its history, and puts another
// key. It repeats what fails until ctx ends.
func (k *Kept) Use(ctx context.Context, t testing.TB, endpoint string) {
	t.Helper()
	c := dialed(t, endpoint)
	defer c.Close()
	k.find(ctx, t, c)
	k.watch(ctx, t, c)
	key := fmt.Sprintf("key/%d", k.keys)
	for {
		put, err := c.Put(ctx, key, "value")
		if err == nil {
			k.keys, k.revision = k.keys+1, put.Header.Revision
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		// It may have been executed.
		if found, err := c.Get(ctx, key); err == nil && len(found.Kvs) == 1 {
			k.keys, k.revision = k.keys+1, found.Header.Revision
			return
		}
	}
}

func (k *Kept) find(ctx context.Context, t testing.TB, c *clientv3.Client) {
	t.Helper()
	for {
		found, err := c.Get(ctx, "key/", clientv3.WithPrefix())
		if err != nil && ctx.Err() == nil {
			continue // the gateways are beginning
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Kvs) != k.keys || k.keys > 0 && found.Header.Revision != k.revision {
			t.Fatalf("%d keys at revision %d, want %d at %d", len(found.Kvs), found.Header.Revision, k.keys, k.revision)
		}
		return
	}
}

// watch expects the changes of all keys, from the first revision on.
func (k *Kept) watch(ctx context.Context, t testing.TB, c *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := c.Watch(ctx, "key/", clientv3.WithPrefix(), clientv3.WithRev(1))
	for seen := 0; seen < k.keys; {
		answer, ok := <-watch
		if !ok {
			t.Fatal("the watch has ended: ", ctx.Err())
		}
		if err := answer.Err(); err != nil {
			t.Fatalf("a watch of the first revision: %v, compacted at %d", err, answer.CompactRevision)
		}
		for _, e := range answer.Events {
			if want := fmt.Sprintf("key/%d", seen); string(e.Kv.Key) != want {
				t.Fatalf("the watch shows %s, want %s", e.Kv.Key, want)
			}
			seen++
		}
	}
}
