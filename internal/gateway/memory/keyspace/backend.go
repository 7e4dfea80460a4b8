package keyspace

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// heap has the buckets of etcd's store in the memory of this process. Nothing is ever written to a file, so there are no
// commits.
//
// Readers see changes at once. etcd's store does not need more: it reads at revisions below those that are written, and
// a compaction waits for the reads that began before it.
type heap struct {
	tx   heapTx
	used atomic.Int64 // bytes of keys and values

	entries atomic.Int64 // of revisions
	written atomic.Int64 // bytes of all entries of revisions that were ever written

	mu        sync.RWMutex // writers hold tx, too
	revisions history
	others    map[backend.BucketID]map[string][]byte
}

func newHeap() *heap {
	h := &heap{others: make(map[backend.BucketID]map[string][]byte)}
	h.tx.heap = h
	return h
}

// ReadTx implements [backend.Backend]. Nothing changes while it is locked.
func (h *heap) ReadTx() backend.ReadTx { return lockedRead{h} }

// ConcurrentReadTx implements [backend.Backend].
func (h *heap) ConcurrentReadTx() backend.ReadTx { return concurrentRead{h} }

// BatchTx implements [backend.Backend].
func (h *heap) BatchTx() backend.BatchTx { return &h.tx }

// Size implements [backend.Backend].
func (h *heap) Size() int64 { return h.used.Load() }

// SizeInUse implements [backend.Backend].
func (h *heap) SizeInUse() int64 { return h.used.Load() }

// OpenReadTxN implements [backend.Backend]: reads hold nothing.
func (h *heap) OpenReadTxN() int64 { return 0 }

// ForceCommit implements [backend.Backend].
func (h *heap) ForceCommit() {}

// Defrag implements [backend.Backend].
func (h *heap) Defrag() error { return nil }

// Close implements [backend.Backend].
func (h *heap) Close() error { return nil }

// SetTxPostLockInsideApplyHook implements [backend.Backend]. Only etcd's server has a hook.
func (h *heap) SetTxPostLockInsideApplyHook(func()) {}

// Snapshot implements [backend.Backend]. There is no file that it could be of.
func (h *heap) Snapshot() backend.Snapshot { return nil }

// Hash implements [backend.Backend].
func (h *heap) Hash(func(bucket, key []byte) bool) (uint32, error) { return 0, errors.ErrUnsupported }

// find returns the entries from a key to an end, as [backend.UnsafeReader] does.
func (h *heap) find(bucket backend.Bucket, key, end []byte, limit int64) (keys, values [][]byte) {
	if len(end) == 0 {
		if value := h.get(bucket, key); value != nil {
			return [][]byte{key}, [][]byte{value}
		}
		return nil, nil
	}
	if bucket.ID() == schema.Key.ID() {
		for _, e := range h.revisions.between(placeOf(key), placeOf(end), limit) {
			keys, values = append(keys, e.at.name()), append(values, e.object)
		}
		return keys, values
	}
	_ = h.each(bucket, func(k, v []byte) error { // it returns no error of its own
		if bytes.Compare(k, key) >= 0 && bytes.Compare(k, end) < 0 && (limit <= 0 || int64(len(keys)) < limit) {
			keys, values = append(keys, k), append(values, v)
		}
		return nil
	})
	return keys, values
}

// get returns the value of a key; nil: it has none.
func (h *heap) get(bucket backend.Bucket, key []byte) []byte {
	if bucket.ID() == schema.Key.ID() {
		return h.revisions.get(placeOf(key))
	}
	return h.others[bucket.ID()][string(key)]
}

func (h *heap) each(bucket backend.Bucket, visit func(k, v []byte) error) error {
	if bucket.ID() == schema.Key.ID() {
		return h.revisions.each(visit)
	}
	all := h.others[bucket.ID()]
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := visit([]byte(key), all[key]); err != nil {
			return err
		}
	}
	return nil
}

// concurrentRead reads beside writers.
type concurrentRead struct{ *heap }

func (concurrentRead) RLock()   {}
func (concurrentRead) RUnlock() {}

func (r concurrentRead) UnsafeRange(bucket backend.Bucket, key, end []byte, limit int64) (keys, values [][]byte) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.find(bucket, key, end, limit)
}

func (r concurrentRead) UnsafeForEach(bucket backend.Bucket, visit func(k, v []byte) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.each(bucket, visit)
}

// lockedRead reads while no writer writes.
type lockedRead struct{ *heap }

func (r lockedRead) RLock()   { r.mu.RLock() }
func (r lockedRead) RUnlock() { r.mu.RUnlock() }

func (r lockedRead) UnsafeRange(bucket backend.Bucket, key, end []byte, limit int64) (keys, values [][]byte) {
	return r.find(bucket, key, end, limit)
}

func (r lockedRead) UnsafeForEach(bucket backend.Bucket, visit func(k, v []byte) error) error {
	return r.each(bucket, visit)
}

// heapTx is the writer.
type heapTx struct {
	sync.Mutex
	heap     *heap
	applying atomic.Bool // the goroutine that applies commands has the lock
}

func (t *heapTx) LockInsideApply() {
	t.Lock()
	t.applying.Store(true)
}

// Unlock implements [backend.BatchTx].
func (t *heapTx) Unlock() {
	t.applying.Store(false)
	t.Mutex.Unlock()
}

func (t *heapTx) LockOutsideApply()                        { t.Lock() }
func (t *heapTx) Commit()                                  {}
func (t *heapTx) CommitAndStop()                           {}
func (t *heapTx) UnsafeCreateBucket(bucket backend.Bucket) {}

func (t *heapTx) UnsafeDeleteBucket(bucket backend.Bucket) {
	h := t.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if bucket.ID() == schema.Key.ID() {
		h.used.Add(-h.revisions.bytes)
		h.revisions = history{}
		h.entries.Store(0)
		return
	}
	for key, value := range h.others[bucket.ID()] {
		h.used.Add(-int64(len(key) + len(value)))
	}
	delete(h.others, bucket.ID())
}

func (t *heapTx) UnsafePut(bucket backend.Bucket, key, value []byte) {
	if bucket.ID() == schema.Key.ID() {
		t.UnsafeSeqPut(bucket, key, clone(value))
		return
	}
	h := t.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	entries := h.others[bucket.ID()]
	if entries == nil {
		entries = make(map[string][]byte)
		h.others[bucket.ID()] = entries
	}
	if old, ok := entries[string(key)]; ok {
		h.used.Add(-int64(len(key) + len(old)))
	}
	h.used.Add(int64(len(key) + len(value)))
	entries[string(key)] = clone(value)
}

// clone copies a value. A nil one would say that there is none.
func clone(value []byte) []byte { return append([]byte{}, value...) }

// UnsafeSeqPut keeps the value, as etcd's own does.
func (t *heapTx) UnsafeSeqPut(bucket backend.Bucket, key, value []byte) {
	if bucket.ID() != schema.Key.ID() {
		t.UnsafePut(bucket, key, value)
		return
	}
	h := t.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used.Add(h.revisions.put(placeOf(key), value))
	h.entries.Store(h.revisions.entries)
	h.written.Add(entryOverhead + int64(len(key)+len(value)))
}

func (t *heapTx) UnsafeDelete(bucket backend.Bucket, key []byte) {
	h := t.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if bucket.ID() == schema.Key.ID() {
		h.used.Add(h.revisions.remove(placeOf(key)))
		h.entries.Store(h.revisions.entries)
		return
	}
	if old, ok := h.others[bucket.ID()][string(key)]; ok {
		h.used.Add(-int64(len(key) + len(old)))
		delete(h.others[bucket.ID()], string(key))
	}
}

// tidy shrinks some parts, from one on. It returns the next part, and false behind the last one.
func (h *heap) tidy(p int) (next int, more bool) {
	h.tx.LockOutsideApply() // between two commands
	defer h.tx.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revisions.tidy(p, tidyParts)
}

// UnsafeRange needs no lock: only the holder of the transaction writes.
func (t *heapTx) UnsafeRange(bucket backend.Bucket, key, end []byte, limit int64) (keys, values [][]byte) {
	return t.heap.find(bucket, key, end, limit)
}

func (t *heapTx) UnsafeForEach(bucket backend.Bucket, visit func(k, v []byte) error) error {
	return t.heap.each(bucket, visit)
}
