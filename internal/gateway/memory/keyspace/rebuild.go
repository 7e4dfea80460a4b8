package keyspace

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"go.etcd.io/etcd/server/v3/storage/backend"
)

// ErrBroken: etcd's store has panicked in the middle of a command. [Keyspace.Rebuild] continues without it.
var ErrBroken = errors.New("the store has panicked")

// recovered turns a panic of Apply into ErrBroken. etcd's store has no other way to give up a transaction that has
// begun.
func (k *Keyspace) recovered(err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("%w: %v\n%s", ErrBroken, p, debug.Stack())
	if k.heap.tx.applying.Load() { // the transaction never ends, and a compaction may wait for it
		k.heap.tx.Unlock()
	}
}

// Rebuild closes a keyspace whose store has panicked, and makes one of its contents as they were before that command,
// with all history. The store's own revision may include a part of the command: etcd ends its transactions when it panics.
func (k *Keyspace) Rebuild() (*Keyspace, error) {
	if err := k.Close(); err != nil {
		return nil, err
	}
	contents := newHeap()
	contents.revisions, contents.others = k.heap.revisions, k.heap.others
	contents.used.Store(k.heap.used.Load())
	for _, e := range contents.revisions.between(place{main: uint64(k.whole + 1)}, place{main: math.MaxUint64}, 0) {
		contents.used.Add(contents.revisions.remove(e.at))
	}
	contents.entries.Store(contents.revisions.entries)
	return openHeap(contents, k.tokens, func(backend.BatchTx) error { return nil })
}
