package keyspace

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3alarm"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// minLeaseTTL is the shortest time to live of a lease, in seconds: etcd's, with its default timeouts. All gateways of a
// keyspace must have the same one.
const minLeaseTTL = 2

// compactionPause is the pause of a compaction after a thousand entries, in which commands are applied.
const compactionPause = time.Millisecond

// Keyspace is a keyspace at one revision after another. Apply calls must not run at once; reads may run beside them.
type Keyspace struct {
	heap   *heap
	store  mvcc.WatchableKV
	leases lease.Lessor
	auth   auth.AuthStore
	alarms *v3alarm.AlarmStore
	full   atomic.Bool // there is an alarm NOSPACE
	tokens Tokens
	gone   chan struct{}
	users  sync.RWMutex // users read-lock it
	// tidying is held by a pass over the history, because another pass would move the parts that this one has not seen.
	tidying sync.Mutex
	// settled is closed when the last compaction is complete.
	settled atomic.Pointer[<-chan struct{}]
	// revisions of objects, as far as known: those at which they were replaced last. Apply calls use it.
	revisions map[string]*int64
	// whole is the revision after the last command that was executed as a whole. Apply calls use it.
	whole int64
}

// clusterVersion enables the lessor's features.
type clusterVersion struct{}

func (clusterVersion) Version() *semver.Version {
	return semver.Must(semver.NewVersion(version.Version))
}

// New makes an empty keyspace whose first change follows a revision, as if all before had been compacted. 1 is etcd's.
func New(revision int64, t Tokens) (*Keyspace, error) {
	if revision <= 1 {
		return open(t, func(backend.BatchTx) error { return nil })
	}
	return open(t, (&Snapshot{compacted: revision}).fill)
}

// open makes a keyspace from the contents that fill writes.
func open(t Tokens, fill func(tx backend.BatchTx) error) (*Keyspace, error) {
	return openHeap(newHeap(), t, fill)
}

func openHeap(contents *heap, t Tokens, fill func(tx backend.BatchTx) error) (*Keyspace, error) {
	k := &Keyspace{heap: contents, tokens: t, gone: make(chan struct{}), revisions: make(map[string]*int64)}
	var settled <-chan struct{} = done()
	k.settled.Store(&settled)
	tx := k.heap.BatchTx()
	tx.LockOutsideApply()
	err := fill(tx)
	tx.Unlock()
	if err != nil {
		return nil, err
	}
	if k.auth, err = t.open(contents); err != nil {
		return nil, err
	}
	if k.alarms, err = v3alarm.NewAlarmStore(quiet, schema.NewAlarmBackend(quiet, contents)); err != nil {
		return nil, err
	}
	k.countAlarms()
	k.leases = lease.NewLessor(quiet, k.heap, clusterVersion{}, lease.LessorConfig{MinLeaseTTL: minLeaseTTL})
	k.store = mvcc.New(quiet, k.heap, k.leases, mvcc.StoreConfig{CompactionSleepInterval: compactionPause})
	k.whole = k.store.Rev()
	return k, nil
}

func done() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Store is the multi-version store, to read and to watch.
func (k *Keyspace) Store() mvcc.WatchableKV { return k.store }

// Leases are the leases, to look at and to renew.
func (k *Keyspace) Leases() lease.Lessor { return k.leases }

// Bytes is what all keys and values take of memory, history included.
func (k *Keyspace) Bytes() int64 { return k.heap.SizeInUse() + k.heap.entries.Load()*entryOverhead }

// Gone is closed when the keyspace is about to be closed: users must end.
func (k *Keyspace) Gone() <-chan struct{} { return k.gone }

// Use registers a user, for which Close waits. It returns false if the keyspace is gone.
func (k *Keyspace) Use() (done func(), ok bool) {
	if !k.users.TryRLock() { // Close waits
		return nil, false
	}
	select {
	case <-k.gone:
		k.users.RUnlock()
		return nil, false
	default:
		return k.users.RUnlock, true
	}
}

// Close waits for the users and removes the keyspace from this process.
func (k *Keyspace) Close() error {
	close(k.gone)
	k.users.Lock()
	defer k.users.Unlock()
	k.leases.Stop()
	return errors.Join(k.auth.Close(), k.store.Close())
}

// Revision is the revision of the last change.
func (k *Keyspace) Revision() int64 { return k.store.Rev() }

var everything = struct{ key, end []byte }{[]byte{0}, []byte{}}

// all reads every key.
func (k *Keyspace) all() (*mvcc.RangeResult, error) {
	return k.store.Range(context.Background(), everything.key, everything.end, mvcc.RangeOptions{})
}
