package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// audited is a key that this gateway answers for and watches.
type audited struct {
	key  string
	ctx  context.Context // ends when the key is not watched any more
	stop context.CancelFunc

	mu sync.Mutex
	core.Audit
}

// audit watches, in etcd, the keys that this gateway answers for.
func (e *Engine) audit() {
	watched := make(map[string]*audited)
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
		for key, w := range watched {
			if _, still := mine[key]; !still {
				w.stop()
				delete(watched, key)
			}
		}
		for key := range mine {
			if watched[key] == nil {
				w := &audited{key: key, Audit: core.Audit{Every: int64(chooseEvery)}}
				w.ctx, w.stop = context.WithCancel(e.ctx)
				watched[key] = w
				e.tasks.Go(func() { e.auditKey(w) })
			}
		}
		e.compare(slices.Collect(maps.Values(watched)))
	}
}

// auditKey watches one key. What etcd compacted meanwhile is made up for by looking at the key as it is.
func (e *Engine) auditKey(w *audited) {
	for w.ctx.Err() == nil {
		answer, err := pb.NewKVClient(e.o.Etcd).Range(w.ctx, &pb.RangeRequest{Key: []byte(w.key)})
		if err != nil {
			retry.Sleep(w.ctx, again)
			continue
		}
		for _, kv := range answer.Kvs {
			e.changed(w, kv.ModRevision)
		}
		_ = e.follow(w.ctx, w.key, "", answer.Header.Revision+1, func(events []*mvccpb.Event) { // it ends with ctx, or when etcd compacted
			e.changed(w, events[len(events)-1].Kv.ModRevision)
		})
	}
}

// changed notes a change.
func (e *Engine) changed(w *audited, rev int64) {
	w.mu.Lock()
	soon := w.Changed(bootTime(), rev)
	w.mu.Unlock()
	if soon {
		e.compare([]*audited{w})
	}
}

// compare compares the newest changes of keys with their objects.
func (e *Engine) compare(watched []*audited) {
	var due []*audited
	var keys []string
	var revs []int64
	for _, w := range watched {
		w.mu.Lock()
		if rev := w.Begin(bootTime()); rev != 0 {
			due, keys, revs = append(due, w), append(keys, w.key), append(revs, rev)
		}
		w.mu.Unlock()
	}
	if len(due) == 0 {
		return
	}
	objects := e.objects(keys)
	for i, w := range due {
		if w.ctx.Err() != nil {
			continue
		}
		e.mu.Lock()
		w.mu.Lock()
		past := e.core.Compare(&w.Audit, w.key, revs[i], &objects[i])
		w.mu.Unlock()
		e.mu.Unlock()
		if past {
			e.bypassed(w.key, revs[i], objects[i].Object.Rev)
		}
	}
}

// objects reads objects, from the memory of a node on this machine where that has them.
func (e *Engine) objects(keys []string) []core.Answer {
	_, objects := e.store.ReadNearby(keys)
	var far []string
	for i := range objects {
		if objects[i].Status != core.OK {
			far = append(far, keys[i])
		}
	}
	if len(far) == 0 {
		return objects
	}
	answers := e.store.Objects(e.ctx, far)
	for i := range objects {
		if objects[i].Status != core.OK {
			objects[i], answers = answers[0], answers[1:]
		}
	}
	return objects
}

// bypassed handles a change that no gateway made: the key is not cached any more.
func (e *Engine) bypassed(key string, rev, cached int64) {
	e.places.mu.Lock()
	known := e.places.excluded[key]
	e.places.excluded[key] = true
	e.places.mu.Unlock()
	if known {
		return
	}
	e.o.Log.Error("a write reached etcd past the gateways: this key is not cached any more, and reads of it may have been stale",
		"key", key, "revision", rev, "cached", cached, "advice",
		"let every client of etcd use a gateway; then have it cached again by netcraq placement allow "+key)
	e.do(func(g *core.Gateway) { g.Unplace(key) })
	e.tasks.Go(func() { e.exclude(key) })
}

// exclude tells all gateways that a key must not be cached.
func (e *Engine) exclude(key string) {
	for e.ctx.Err() == nil {
		_, err := pb.NewKVClient(e.o.Etcd).Put(e.ctx, &pb.PutRequest{Key: []byte(OwnPrefix + core.ExclusionPrefix + key)})
		if err == nil {
			return
		}
		retry.Sleep(e.ctx, againAfter(err))
	}
}
