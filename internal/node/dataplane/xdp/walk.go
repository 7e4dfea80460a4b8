package xdp

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

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
	// walkBytes is how much of a walk's output is read at a time: it bounds the time for which the kernel keeps the CPU.
	walkBytes = 4096
	// walkStretch is how long a walk goes on before it rests.
	walkStretch = 500 * time.Microsecond
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

// walk returns the keys that a program of bpf/node/scan.bpf.c wants of a table; nq_walk_objects needs since. An entry
// that is there during all of the walk is met at least once: nothing is deleted meanwhile. A walk that gives way to an
// urgent one begins anew.
func (t *tables) walk(
	program string, table *ebpf.Map, set *shardSet, since *sinceSet, p pace,
) (keys [][keyBytesInTables]byte, err error) {
	for {
		keys, err = t.walkOnce(program, table, set, since, p)
		if !errors.Is(err, errGaveWay) {
			return keys, err
		}
	}
}

// errGaveWay ends a walk for an urgent one.
var errGaveWay = errors.New("an urgent walk is due")

func (t *tables) walkOnce(
	program string, table *ebpf.Map, set *shardSet, since *sinceSet, p pace,
) (keys [][keyBytesInTables]byte, err error) {
	t.turns.take(p)
	defer t.turns.end(p)
	if err := t.scanner.Variables["nq_wanted"].Set(set); err != nil {
		return nil, err
	}
	if since != nil {
		if err := t.scanner.Variables["nq_since"].Set(since); err != nil {
			return nil, err
		}
	}
	iter, err := link.AttachIter(link.IterOptions{Program: t.scanner.Programs[program], Map: table})
	if err != nil {
		return nil, fmt.Errorf("walking over a table: %w", err)
	}
	defer iter.Close()
	reader, err := iter.Open()
	if err != nil {
		return nil, fmt.Errorf("walking over a table: %w", err)
	}
	defer reader.Close()
	var piece [walkBytes]byte
	for work := newStretch(p.rest); ; {
		work.part()
		if t.turns.givesWay(p) {
			return nil, errGaveWay
		}
		n, err := reader.Read(piece[:])
		if errors.Is(err, io.EOF) {
			return keys, nil
		}
		if err != nil {
			return nil, fmt.Errorf("walking over a table: %w", err)
		}
		for at := 0; at+keyBytesInTables <= n; at += keyBytesInTables {
			if key := [keyBytesInTables]byte(piece[at:]); key != filler {
				keys = append(keys, key)
			}
		}
	}
}

// filler is the key that a program writes for keys that are not wanted.
var filler [keyBytesInTables]byte

func keysOf(found [][keyBytesInTables]byte) []wire.Key {
	keys := make([]wire.Key, len(found))
	for i, b := range found {
		keys[i] = keyOf(b[:])
	}
	return keys
}

// sessionKeys lists the keys of all sessions of some shards.
func (t *tables) sessionKeys(set *shardSet, p pace) ([]nqSessionKey, error) {
	found, err := t.walk("nq_walk_sessions", t.objects.Sessions, set, nil, p)
	if err != nil {
		return nil, err
	}
	keys := make([]nqSessionKey, 0, len(found))
	for _, b := range found {
		keys = append(keys, nqSessionKey{Session: [8]byte(b[:]), Shard: native.Uint32(b[8:])})
	}
	return keys, nil
}
