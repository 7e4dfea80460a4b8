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
)

// guarded is a key that this gateway placed and watches.
type guarded struct {
	key  string
	ctx  context.Context // ends when the key is not watched any more
	stop context.CancelFunc

	mu        sync.Mutex
	unchecked int64     // revision of the newest change that was not compared with the object; 0: none
	compared  time.Time // when the last comparison began
}

// guard watches, in etcd, the keys that this gateway placed. A change that no gateway made is newer than a readable object: every
// gateway sets its bit before it writes, and clears it with what it wrote.
func (e *Engine) guard() {
	watched := make(map[string]*guarded)
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
				w := &guarded{key: key}
				w.ctx, w.stop = context.WithCancel(e.ctx)
				watched[key] = w
				e.tasks.Go(func() { e.guardKey(w) })
			}
		}
		e.compare(slices.Collect(maps.Values(watched)))
	}
}

// guardKey watches one key. What etcd compacted meanwhile is made up for by looking at the key as it is.
func (e *Engine) guardKey(w *guarded) {
	for w.ctx.Err() == nil {
		answer, err := pb.NewKVClient(e.o.Etcd).Range(w.ctx, &pb.RangeRequest{Key: []byte(w.key)})
		if err != nil {
			pause(w.ctx, again)
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

// changed notes a change. It is compared with the object at once, unless the last comparison was a moment ago: then guard compares
// the newest change later, so that a key that is written all the time costs few comparisons.
func (e *Engine) changed(w *guarded, rev int64) {
	w.mu.Lock()
	w.unchecked = max(w.unchecked, rev)
	soon := time.Since(w.compared) >= chooseEvery
	w.mu.Unlock()
	if soon {
		e.compare([]*guarded{w})
	}
}

// compare compares the newest changes of keys with their objects.
func (e *Engine) compare(watched []*guarded) {
	var due []*guarded
	var keys []string
	var revs []int64
	for _, w := range watched {
		w.mu.Lock()
		if w.unchecked != 0 {
			due, keys, revs = append(due, w), append(keys, w.key), append(revs, w.unchecked)
			w.compared = time.Now()
		}
		w.mu.Unlock()
	}
	if len(due) == 0 {
		return
	}
	objects := e.objects(keys)
	for i, w := range due {
		e.mu.Lock()
		gen := e.core.Readable(w.key) // writes set no bits in an object that the directory does not name
		e.mu.Unlock()
		if w.ctx.Err() != nil || !w.settled(revs[i], gen, &objects[i]) {
			continue
		}
		if o := &objects[i].Object; objects[i].Status == core.OK && o.Gen == gen && o.Readable() && o.Rev < revs[i] {
			e.bypassed(w.key, revs[i], o.Rev)
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

// settled reports whether the object tells if a gateway made the change, which then counts as checked. It does not while it
// is not answered, or while a write of a gateway is under way: that may have committed before the change.
func (w *guarded) settled(rev, gen int64, a *core.Answer) bool {
	if a.Status == core.Away || a.Status == core.OK && a.Object.Gen == gen && (a.Object.Bits != 0 || a.Object.Joining) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unchecked == rev {
		w.unchecked = 0
	}
	return true
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
		"let every client of etcd use a gateway; then delete the key "+OwnPrefix+excludedPrefix+key)
	e.do(func(g *core.Gateway) { g.Unplace(key) })
	e.tasks.Go(func() { e.exclude(key) })
}

// exclude tells all gateways that a key must not be cached.
func (e *Engine) exclude(key string) {
	for e.ctx.Err() == nil {
		_, err := pb.NewKVClient(e.o.Etcd).Put(e.ctx, &pb.PutRequest{Key: []byte(OwnPrefix + excludedPrefix + key)})
		if err == nil {
			return
		}
		pause(e.ctx, againAfter(err))
	}
}
