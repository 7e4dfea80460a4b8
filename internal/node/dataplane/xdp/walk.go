package xdp

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/wire"
)

// shardSet is some of a cluster's shards: a bit each.
type shardSet [wire.MaxShards / 64]uint64

func (s *shardSet) add(shard uint16)      { s[shard/64] |= 1 << (shard % 64) }
func (s *shardSet) has(shard uint16) bool { return s[shard/64]>>(shard%64)&1 == 1 }

// allShards is the set of all.
func allShards() *shardSet {
	s := new(shardSet)
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// keyBytesInTables is the length of the keys of objects and of sessions.
const keyBytesInTables = 16

const (
	// walkEntries is how many entries one system call of a walk copies. No bucket of a table has as many.
	walkEntries = 256
	// walkStretch is how long a walk goes on before it rests.
	walkStretch = 250 * time.Microsecond
)

// stretch is long work in parts, which rests between them.
type stretch struct {
	rest  scheduling.Pause
	began time.Time
}

func newStretch(rest scheduling.Pause) *stretch { return &stretch{rest, time.Now()} }

// part is called between two parts.
func (s *stretch) part() {
	if worked := time.Since(s.began); worked > walkStretch {
		scheduling.Sleep(s.rest(worked))
		s.began = time.Now()
	}
}

// sinceSet says of each shard after which epoch its objects are wanted; 0: all are.
type sinceSet [wire.MaxShards]uint32

// tableKey is a key of the table of objects or of sessions.
type tableKey = [keyBytesInTables]byte

// selection returns the wanted ones of some entries of a table. Packets may change entries while the kernel copies
// them.
type selection func(keys []tableKey, entries [][]byte) ([]tableKey, error)

// walk returns the keys of a table that a selection wants. It passes every entry that is there during all of the walk.
// The table stays in use meanwhile. A walk that gives way to an urgent one begins anew.
//
// Hardened kernels refuse programs on the iterator of map elements, and BPF_MAP_GET_NEXT_KEY takes three times as
// long, and begins anew when its key is deleted. Only a walk for what changed after an epoch (C7) depends on what
// packets write meanwhile: it asks nq_export for the header, read under the sequence lock.
func (t *tables) walk(table *ebpf.Map, p pace, wanted selection) (keys keyPieces, err error) {
	for {
		keys, err = t.walkOnce(table, p, wanted)
		if !errors.Is(err, errGaveWay) {
			return keys, err
		}
	}
}

// errGaveWay ends a walk for an urgent one.
var errGaveWay = errors.New("an urgent walk is due")

func (t *tables) walkOnce(table *ebpf.Map, p pace, wanted selection) (found keyPieces, err error) {
	t.turns.take(p)
	defer t.turns.end(p)
	var (
		cursor  ebpf.MapBatchCursor
		keys    = make([]tableKey, walkEntries)
		entries = newEntries(table, walkEntries)
	)
	for work, end := newStretch(p.rest), false; !end; {
		work.part()
		if t.turns.givesWay(p) {
			return nil, errGaveWay
		}
		n, err := table.BatchLookup(&cursor, keys, entries.memory, nil)
		if end = errors.Is(err, ebpf.ErrKeyNotExist); err != nil && !end {
			return nil, fmt.Errorf("walking over a table: %w", err)
		}
		some, err := wanted(keys[:n], entries.each[:n])
		if err != nil {
			return nil, fmt.Errorf("walking over a table: %w", err)
		}
		found.add(some...)
	}
	return found, nil
}

// entryBuffer is memory for copies of entries, whose length is known only while the process runs.
type entryBuffer struct {
	memory any // a slice of arrays
	each   [][]byte
}

func newEntries(table *ebpf.Map, count int) entryBuffer {
	entry := int(table.ValueSize())
	memory := reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(entry/8, reflect.TypeFor[uint64]())), count, count)
	b := entryBuffer{memory: memory.Interface(), each: make([][]byte, count)}
	for i := range b.each {
		b.each[i] = unsafe.Slice((*byte)(memory.Index(i).Addr().UnsafePointer()), entry)
	}
	return b
}

// objectKeys lists the keys of objects of some shards by what their headers hold.
func (t *tables) objectKeys(set *shardSet, p pace, wanted func(*nqObject) bool) (keyPieces, error) {
	return t.walk(t.table.entries, p, func(keys []tableKey, entries [][]byte) (found []tableKey, err error) {
		for i, key := range keys {
			if set.has(t.shardOf(key)) && wanted(header(entries[i])) {
				found = append(found, key)
			}
		}
		return found, nil
	})
}

func (t *tables) shardOf(key tableKey) uint16 { return keyOf(key[:]).Shard(t.options.Shards) }

// Headers that walks look for.
func anyObject(*nqObject) bool     { return true }
func isEmpty(o *nqObject) bool     { return o.Version == 0 }
func isDirty(o *nqObject) bool     { return o.Version != o.Committed }
func isDoubtful(o *nqObject) bool  { return isEmpty(o) || isDirty(o) }
func isTombstone(o *nqObject) bool { return isEmpty(o) || o.Tombstone != 0 }

// changedKeys lists the keys of the objects of some shards that became clean after an epoch, are dirty, or are being
// written (C7).
func (t *tables) changedKeys(set *shardSet, since *sinceSet, p pace) (keyPieces, error) {
	headers := newBatch(objectRecordBytes)
	headers.headersOnly()
	return t.walk(t.table.entries, p, func(keys []tableKey, _ [][]byte) (found []tableKey, err error) {
		for _, key := range keys {
			switch shard := t.shardOf(key); {
			case !set.has(shard):
			case since[shard] == 0:
				found = append(found, key)
			default:
				copy(headers.add(), key[:])
			}
			if headers.full() {
				if found, err = t.appendChanged(found, headers, since); err != nil {
					return nil, err
				}
			}
		}
		return t.appendChanged(found, headers, since)
	})
}

// appendChanged appends those keys of a batch whose objects changed, and empties the batch.
func (t *tables) appendChanged(keys []tableKey, headers *batch, since *sinceSet) ([]tableKey, error) {
	defer headers.reset()
	if headers.count == 0 {
		return keys, nil
	}
	done, _, err := headers.run(t.objects.Export)
	if err == nil && done != headers.count {
		err = fmt.Errorf("the program read %d of %d headers", done, headers.count)
	}
	if err != nil {
		return nil, err
	}
	for i := range headers.count {
		r := (*nqRecord)(unsafe.Pointer(unsafe.SliceData(headers.record(i))))
		dirty := r.Version != r.Committed
		if r.State == recordContended ||
			r.State == recordWhole && (dirty || r.Epoch > since[t.shardOf(r.Key)]) {
			keys = append(keys, r.Key)
		}
	}
	return keys, nil
}

func keysOf(found []tableKey) []wire.Key {
	keys := make([]wire.Key, len(found))
	for i, b := range found {
		keys[i] = keyOf(b[:])
	}
	return keys
}

// sessionKeys lists the keys of all sessions of some shards.
func (t *tables) sessionKeys(set *shardSet, p pace) (keyPieces, error) {
	return t.walk(t.objects.Sessions, p, func(keys []tableKey, _ [][]byte) (found []tableKey, err error) {
		for _, key := range keys {
			if set.has(uint16(nqSessionKeyOf(key).Shard)) {
				found = append(found, key)
			}
		}
		return found, nil
	})
}

func nqSessionKeysOf(found []tableKey) []nqSessionKey {
	keys := make([]nqSessionKey, len(found))
	for i, key := range found {
		keys[i] = nqSessionKeyOf(key)
	}
	return keys
}

func nqSessionKeyOf(key tableKey) nqSessionKey {
	return nqSessionKey{Session: [8]byte(key[:]), Shard: native.Uint32(key[8:])}
}
