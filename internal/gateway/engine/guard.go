package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// guard watches, in etcd, the keys that this gateway placed. A change that no gateway made is newer than a readable object: every
// gateway sets its bit before it writes, and clears it with what it wrote.
func (e *Engine) guard() {
	watched := make(map[string]context.CancelFunc)
	ticker := time.NewTicker(chooseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		e.places.mu.Lock()
		mine := maps.Clone(e.places.mine)
		e.places.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(watched)) {
			if _, still := mine[key]; !still {
				watched[key]()
				delete(watched, key)
			}
		}
		for key := range mine {
			if watched[key] == nil {
				ctx, cancel := context.WithCancel(e.ctx)
				watched[key] = cancel
				e.tasks.Go(func() { e.guardKey(ctx, key) })
			}
		}
	}
}

// guardKey watches one key. What etcd compacted meanwhile is made up for by looking at the key as it is.
func (e *Engine) guardKey(ctx context.Context, key string) {
	for ctx.Err() == nil {
		answer, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{Key: []byte(key)})
		if err != nil {
			pause(ctx, again)
			continue
		}
		for _, kv := range answer.Kvs {
			e.changed(ctx, key, kv.ModRevision)
		}
		_ = e.follow(ctx, key, "", answer.Header.Revision+1, func(events []*mvccpb.Event) { // it ends with ctx, or when etcd compacted
			e.changed(ctx, key, events[len(events)-1].Kv.ModRevision)
		})
	}
}

// changed compares a change with the object.
func (e *Engine) changed(ctx context.Context, key string, rev int64) {
	a := e.store.Object(ctx, key)
	e.mu.Lock()
	gen := e.core.Readable(key) // writes set no bits in an object that the directory does not name
	e.mu.Unlock()
	if a.Status != core.OK || a.Object.Gen != gen || !a.Object.Readable() || a.Object.Rev >= rev || ctx.Err() != nil {
		return
	}
	e.o.Log.Error("a write reached etcd past the gateways: this key is not cached any more, and reads of it may have been stale",
		"key", key, "revision", rev, "cached", a.Object.Rev, "advice",
		"let every client of etcd use a gateway; then delete the key "+OwnPrefix+excludedPrefix+key)
	e.places.mu.Lock()
	e.places.excluded[key] = true
	e.places.mu.Unlock()
	e.do(func(g *core.Gateway) { g.Unplace(key) })
	for e.ctx.Err() == nil {
		_, err := pb.NewKVClient(e.o.Etcd).Put(e.ctx, &pb.PutRequest{Key: []byte(OwnPrefix + excludedPrefix + key)})
		if err == nil {
			return
		}
		pause(e.ctx, again)
	}
}
