package chainlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// Errors to compare with errors.Is.
var (
	// ErrNone: the chain has no such keyspace.
	ErrNone = errors.New("the chain has no such keyspace")
	// ErrBehind: the next entry was overwritten. The newest snapshot contains it.
	ErrBehind = errors.New("the log's next entry was overwritten: load the snapshot")
	// ErrDeposed: there is a writer with a higher term.
	ErrDeposed = driver.ErrDeposed
	// ErrLost: objects of the log are gone, so the chain has lost its state.
	ErrLost = driver.ErrLost
	// ErrFull: the ring is full until the next snapshot is complete.
	ErrFull = errors.New("the log is full: its snapshot is not complete")
	// ErrTooLarge: the batch takes more than half of the ring.
	ErrTooLarge = errors.New("the batch is too large for the log")
)

// DefaultEntries is the default length of the ring.
const DefaultEntries = 8192

// minEntries is the length of the shortest ring.
const minEntries = 4

// meta describes a keyspace, as JSON. It is the first object of a keyspace that is written, and again when all others are.
type meta struct {
	Format     int    `json:"format"`
	ID         uint64 `json:"id"`
	Entries    int    `json:"entries"`
	ValueBytes int    `json:"value_bytes"`
	Revision   int64  `json:"revision"` // of the keyspace before its first entry
	Secret     []byte `json:"secret,omitempty"`
}

const formatMeta = 3

// Log is one keyspace's log. Its methods must not be called at once, except those of snapshots.
type Log struct {
	writer // its term is 0 while this log is only read
	meta   meta

	at      core.Cursor
	partial []byte // pieces of a batch whose last one was not read
	packer  packer

	mu       sync.Mutex // of publish, and of pointer and its version
	pointer  Snapshot
	version  uint64
	retained atomic.Uint64 // the index of the newest snapshot
}

// prefixOf a keyspace's objects.
func prefixOf(name string) string { return "memory/" + name + "/" }

// Open opens a keyspace to read it from its beginning or from its snapshot. The error is ErrNone if there is none.
func Open(ctx context.Context, chain *client.Client, name string) (*Log, error) {
	l := newLog(chain, name, meta{})
	l.at = core.Cursor{Next: 1}
	r, err := chain.Get(ctx, l.metaKey())
	if errors.Is(err, client.ErrNotFound) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	found, err := decode(r.Value)
	if err == nil && found.flags&flagUnfinished != 0 {
		return nil, ErrNone
	}
	if err == nil {
		err = json.Unmarshal(found.payload, &l.meta)
	}
	if err != nil || l.meta.Format != formatMeta || l.meta.Entries < minEntries || l.meta.ValueBytes <= headerBytes {
		return nil, fmt.Errorf("the key %s holds something other than a keyspace of this version: "+
			"name another keyspace, or end all gateways of it and delete the key", l.metaKey())
	}
	l.described()
	return l, l.survey(ctx)
}

func newLog(chain *client.Client, name string, m meta) *Log {
	l := &Log{writer: writer{ring: &ring{chain: chain, prefix: prefixOf(name)}}, meta: m}
	l.described()
	return l
}

// described takes the ring's numbers from the description.
func (l *Log) described() {
	l.id, l.entries, l.valueBytes = l.meta.ID, l.meta.Entries, l.meta.ValueBytes
	l.versions = make([]uint64, l.entries)
}

// survey learns the versions of all objects of the ring, so that a write finds out if one is lost: an object that does
// not exist has version 0, too.
func (l *Log) survey(ctx context.Context) error {
	for begin := 0; begin < l.entries; begin += readAhead {
		for i, o := range l.get(ctx, uint64(begin), min(readAhead, l.entries-begin)) {
			if _, err := l.seen(begin+i, &o); err != nil {
				return err
			}
		}
	}
	return nil
}

// ID is a number of the keyspace that no other keyspace has.
func (l *Log) ID() uint64 { return l.meta.ID }

// Revision is that of the keyspace before its first entry.
func (l *Log) Revision() int64 { return l.meta.Revision }

// Secret is that by which the keyspace's gateways know each other. It is missing in keyspaces of earlier versions.
func (l *Log) Secret() []byte { return l.meta.Secret }

// Next is the index of the next entry.
func (l *Log) Next() uint64 { return l.at.Next }

// LastTerm is the term of the entry before the next one.
func (l *Log) LastTerm() uint64 { return l.at.Term }

// SnapshotDue reports whether half of the ring was written since the newest snapshot. applied is the last applied
// entry.
func (l *Log) SnapshotDue(applied uint64) bool {
	return applied >= l.retained.Load()+l.length()/2
}

func (l *Log) metaKey() string { return l.prefix + "meta" }
