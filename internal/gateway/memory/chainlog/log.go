package chainlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/wire"
)

// Errors to compare with errors.Is.
var (
	// ErrNone: the chain has no such keyspace.
	ErrNone = errors.New("the chain has no such keyspace")
	// ErrBehind: the next entry was overwritten. The newest snapshot contains it.
	ErrBehind = errors.New("the log's next entry was overwritten: load the snapshot")
	// ErrDeposed: there is a writer with a higher term.
	ErrDeposed = errors.New("a later writer took the log over")
	// ErrLost: objects of the keyspace are gone, so the chain has lost its state.
	ErrLost = errors.New("the chain has lost objects of the keyspace")
	// ErrFull: the ring has no room until the next snapshot is complete.
	ErrFull = errors.New("the log is full: its snapshot is not complete")
	// ErrTooLarge: the batch takes more than half of the ring.
	ErrTooLarge = errors.New("the batch is too large for the log")
)

// DefaultEntries is the default length of the ring.
const DefaultEntries = 8192

// minEntries is the length of the shortest ring.
const minEntries = 4

// meta describes a keyspace. It is written once, as JSON.
type meta struct {
	Format     int    `json:"format"`
	ID         uint64 `json:"id"`
	Entries    int    `json:"entries"`
	ValueBytes int    `json:"value_bytes"`
	Revision   int64  `json:"revision"` // of the keyspace before its first entry
}

const formatMeta = 3

// Log is one keyspace's log. Its methods must not be called at once, except those of snapshots.
type Log struct {
	chain  *client.Client
	prefix string
	meta   meta

	next     uint64   // the index of the next entry
	lastTerm uint64   // of the entry before
	term     uint64   // of this writer; 0: it only reads
	versions []uint64 // of the ring's objects as last seen
	partial  []byte   // pieces of a batch whose last one was not read
	packer   packer

	mu       sync.Mutex // of publish, and of pointer and its version
	pointer  Snapshot
	version  uint64
	retained atomic.Uint64 // the index of the newest snapshot
}

// prefixOf a keyspace's objects.
func prefixOf(name string) string { return "memory/" + name + "/" }

// Open opens a keyspace to read it from its beginning or from its snapshot. The error is ErrNone if there is none.
func Open(ctx context.Context, chain *client.Client, name string) (*Log, error) {
	l := &Log{chain: chain, prefix: prefixOf(name), next: 1}
	r, err := chain.Get(ctx, l.prefix+"meta")
	if errors.Is(err, client.ErrNotFound) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	found, err := decode(r.Value)
	if err == nil {
		err = json.Unmarshal(found.payload, &l.meta)
	}
	if err != nil || l.meta.Format != formatMeta || l.meta.Entries < minEntries || l.meta.ValueBytes <= headerBytes {
		return nil, fmt.Errorf("the key %smeta holds something other than a keyspace of this version: "+
			"name another keyspace, or end all gateways of it and delete the key", l.prefix)
	}
	l.versions = make([]uint64, l.meta.Entries)
	return l, l.survey(ctx)
}

// survey learns the versions of all objects of the ring, so that a write finds out if one is lost: an object that does
// not exist has version 0, too.
func (l *Log) survey(ctx context.Context) error {
	for begin := 0; begin < l.meta.Entries; begin += readAhead {
		keys := make([]string, min(readAhead, l.meta.Entries-begin))
		for i := range keys {
			keys[i] = l.entryKey(begin + i)
		}
		for i, o := range l.chain.GetMany(ctx, keys) {
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

// Next is the index of the next entry.
func (l *Log) Next() uint64 { return l.next }

// LastTerm is the term of the entry before the next one.
func (l *Log) LastTerm() uint64 { return l.lastTerm }

// SnapshotDue reports whether half of the ring was written since the newest snapshot. applied is the last applied
// entry.
func (l *Log) SnapshotDue(applied uint64) bool {
	return applied >= l.retained.Load()+uint64(l.meta.Entries)/2
}

// payloadBytes is the room for a batch in one entry.
func (l *Log) payloadBytes() int { return l.meta.ValueBytes - headerBytes }

func (l *Log) slot(index uint64) int { return int(index % uint64(l.meta.Entries)) }

func (l *Log) entryKey(slot int) string { return fmt.Sprintf("%slog/%d", l.prefix, slot) }

// Create makes a keyspace. Only the holder of the keyspace's lock may call it; term is the lock's token. entries is the
// length of the ring, and revision that of the keyspace before its first entry.
func Create(ctx context.Context, chain *client.Client, name string, term uint64, entries int, revision int64) (*Log,
	error) {
	if entries < minEntries {
		return nil, fmt.Errorf("a log has at least %d entries, not %d", minEntries, entries)
	}
	var id [8]byte
	rand.Read(id[:])
	l := &Log{
		chain: chain, prefix: prefixOf(name),
		meta: meta{Format: formatMeta, ID: binary.BigEndian.Uint64(id[:]) | 1, Entries: entries, Revision: revision},
	}
	if err := l.probeLength(ctx); err != nil {
		return nil, err
	}
	if err := l.clear(ctx, term); err != nil {
		return nil, err
	}
	text, err := json.Marshal(l.meta)
	if err != nil {
		return nil, err
	}
	own := record{keyspace: l.meta.ID, term: term, payload: text}
	if err := l.replace(ctx, []string{l.prefix + "meta"}, [][]byte{own.encode()}, term); err != nil {
		return nil, err
	}
	return Open(ctx, chain, name)
}

// probeLength finds the longest value that the chain's nodes have cells for.
func (l *Log) probeLength(ctx context.Context) error {
	const least = 8 * headerBytes
	for n := wire.MaxValueBytes; n >= least; n -= 8 {
		_, err := l.chain.Put(ctx, l.prefix+"probe", make([]byte, n))
		if errors.Is(err, client.ErrTooLarge) {
			continue
		}
		l.meta.ValueBytes = n
		return err
	}
	return fmt.Errorf("the chain's cells are too short: a log needs values of %d bytes", least)
}

// clear writes every object of the ring, so that they have their room in the chain, and a missing one means that the
// chain has lost its state.
func (l *Log) clear(ctx context.Context, term uint64) error {
	none, err := json.Marshal(Snapshot{})
	if err != nil {
		return err
	}
	empty := record{keyspace: l.meta.ID, term: term}
	pointer := record{keyspace: l.meta.ID, term: term, payload: none}
	keys, values := []string{l.pointerKey()}, [][]byte{pointer.encode()}
	for i := range l.meta.Entries {
		keys, values = append(keys, l.entryKey(i)), append(values, empty.encode())
	}
	for begin := 0; begin < len(keys); begin += readAhead {
		end := min(begin+readAhead, len(keys))
		if err := l.replace(ctx, keys[begin:end], values[begin:end], term); err != nil {
			return fmt.Errorf("the %d objects of the log: %w", len(keys), err)
		}
	}
	return nil
}

// retryPause is the pause before an operation that the chain did not answer is tried again.
const retryPause = 5 * time.Millisecond

// rest waits; it returns an error if ctx ends first.
func rest(ctx context.Context, pause time.Duration) error {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
