package keyspace

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
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
	first := mvcc.RevToBytes(mvcc.Revision{Main: k.whole + 1}, mvcc.NewRevBytes())
	unfinished, _ := contents.revisions.find(first, []byte{0xff}, 0)
	for _, key := range unfinished {
		contents.used.Add(contents.revisions.remove(key))
	}
	contents.entries.Store(contents.revisions.entries)
	return openHeap(contents, k.tokens, func(backend.BatchTx) error { return nil })
}
