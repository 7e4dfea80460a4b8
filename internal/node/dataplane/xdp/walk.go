package xdp

import (
	"errors"
	"fmt"
	"reflect"
	"time"

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
	// walkCells is how many cells of the table of objects a walk looks at in one part.
	walkCells = 4096
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

// errGaveWay ends a walk for an urgent one.
var errGaveWay = errors.New("an urgent walk is due")

// part returns the next keys that a walk wants, and whether the walk is at its end.
type part func() (found []tableKey, end bool, err error)

// walk returns the keys that a walk over a table finds. It passes every entry that is there during all of the walk. The
// table stays in use meanwhile. A walk that gives way to an urgent one begins anew.
func (t *tables) walk(p pace, begin func() part) (keys keyPieces, err error) {
	for {
		keys, err = t.walkOnce(p, begin())
		if !errors.Is(err, errGaveWay) {
			return keys, err
		}
	}
}

func (t *tables) walkOnce(p pace, next part) (found keyPieces, err error) {
	t.turns.take(p)
	defer t.turns.end(p)
	for work, end := newStretch(p.rest), false; !end; {
		work.part()
		if t.turns.givesWay(p) {
			return nil, errGaveWay
		}
		var some []tableKey
		if some, end, err = next(); err != nil {
			return nil, fmt.Errorf("walking over a table: %w", err)
		}
		found.add(some...)
	}
	return found, nil
}

// newEntries returns memory for copies of entries, whose length is known only while the process runs: a slice of arrays.
func newEntries(table *ebpf.Map, count int) any {
	entry := reflect.ArrayOf(int(table.ValueSize())/8, reflect.TypeFor[uint64]())
	return reflect.MakeSlice(reflect.SliceOf(entry), count, count).Interface()
}

// objectKeys lists the keys of objects of some shards by what their headers hold. whole is false for a header that packets
// changed while it was copied.
func (t *tables) objectKeys(set *shardSet, p pace, wanted func(h *nqObject, whole bool) bool) (keyPieces, error) {
	return t.walk(p, func() part {
		at := 0
		return func() (found []tableKey, end bool, err error) {
			to := min(at+walkCells, t.table.cells)
			t.table.scan(at, to, func(h *nqObject, whole bool) {
				if set.has(t.shardOf(h.Key)) && wanted(h, whole) {
					found = append(found, h.Key)
				}
			})
			at = to
			return found, at == t.table.cells, nil
		}
	})
}

func (t *tables) shardOf(key tableKey) uint16 { return keyOf(key[:]).Shard(t.options.Shards) }

// Headers that walks look for.
func anyObject(*nqObject, bool) bool       { return true }
func isEmpty(h *nqObject) bool             { return h.Version == 0 }
func isDirty(h *nqObject, _ bool) bool     { return h.Version != h.committed() }
func isDoubtful(h *nqObject, w bool) bool  { return isEmpty(h) || isDirty(h, w) }
func isTombstone(h *nqObject, _ bool) bool { return isEmpty(h) || h.Shape&shapeTombstone != 0 }

// changedKeys lists the keys of the objects of some shards that became clean after an epoch, are dirty, or are being
// written (C7).
func (t *tables) changedKeys(set *shardSet, since *sinceSet, p pace) (keyPieces, error) {
	return t.objectKeys(set, p, func(h *nqObject, whole bool) bool {
		epoch := since[t.shardOf(h.Key)]
		return epoch == 0 || !whole || isDirty(h, whole) || h.epoch() > epoch
	})
}

func keysOf(found []tableKey) []wire.Key {
	keys := make([]wire.Key, len(found))
	for i, b := range found {
		keys[i] = keyOf(b[:])
	}
	return keys
}

// sessionKeys lists the keys of all sessions of some shards.
//
// Hardened kernels refuse programs on the iterator of map elements, and BPF_MAP_GET_NEXT_KEY takes three times as long, and
// begins anew when its key is deleted.
func (t *tables) sessionKeys(set *shardSet, p pace) (keyPieces, error) {
	return t.walk(p, func() part {
		var cursor ebpf.MapBatchCursor
		keys, entries := make([]tableKey, walkEntries), newEntries(t.objects.Sessions, walkEntries)
		return func() (found []tableKey, end bool, err error) {
			n, err := t.objects.Sessions.BatchLookup(&cursor, keys, entries, nil)
			if end = errors.Is(err, ebpf.ErrKeyNotExist); err != nil && !end {
				return nil, false, err
			}
			for _, key := range keys[:n] {
				if set.has(uint16(nqSessionKeyOf(key).Shard)) {
					found = append(found, key)
				}
			}
			return found, end, nil
		}
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
