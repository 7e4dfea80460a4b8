package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// tables are a node's state, with all methods that need no network. [Plane] and [Offline] have them.
type tables struct {
	objects *objects
	table   *objectTable
	shards  *shardTable
	counts  *countTable
	usage   []uint64   // memory of nq_usage
	holders []nqHolder // memory of nq_holders
	options chain.Options
	quiesce func() error // waits until all programs that run have ended

	configuring sync.Mutex // held while configurations change
	unquiet     bool       // packets may be under way that began before the last change; guarded by configuring
	collecting  sync.Mutex // held while Collect runs
	turns       *turns     // of walks over a table and of deletions; taken before configuring
}

// open maps the memory of tables that have been loaded.
func (t *tables) open(o chain.Options, quiesce func() error) error {
	t.options, t.quiesce, t.turns = o, quiesce, newTurns()
	var err error
	if t.shards, err = mapShards(t.objects, o.Shards); err != nil {
		return err
	}
	if t.counts, err = mapCounts(t.objects, o.Shards); err != nil {
		return err
	}
	if t.usage, err = mapArray[uint64](t.objects.Usage, countedTables); err != nil {
		return fmt.Errorf("mapping the table of usage: %w", err)
	}
	if t.holders, err = mapArray[nqHolder](t.objects.Holders, wire.SessionHolders); err != nil {
		return fmt.Errorf("mapping the table of holders of sessions: %w", err)
	}
	t.table, err = mapObjects(t.objects)
	return err
}

func (t *tables) close() error {
	var errs []error
	if t.shards != nil {
		errs = append(errs, t.shards.close())
	}
	if t.counts != nil {
		errs = append(errs, t.counts.close())
	}
	if t.table != nil {
		errs = append(errs, t.table.close())
	}
	if t.usage != nil {
		errs = append(errs, unmapArray(t.usage))
	}
	if t.holders != nil {
		errs = append(errs, unmapArray(t.holders))
	}
	if t.objects != nil {
		t.objects.close()
	}
	return errors.Join(errs...)
}

// Object implements [dataplane.Plane].
func (t *tables) Object(key wire.Key) (chain.Object, bool, error) {
	return t.objects.object(key, recordBytes(t.options))
}

// Dirty implements [dataplane.Plane].
func (t *tables) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	found, err := t.objectKeys(allShards(), background, isDirty)
	if err != nil {
		return nil, err
	}
	var out []dataplane.KeyedObject
	for _, b := range slices.Concat(found...) {
		k := keyOf(b[:])
		if len(out) == limit || t.shards.commits(k.Shard(t.options.Shards)) {
			continue
		}
		o, found, err := t.Object(k)
		if err != nil {
			return nil, err
		}
		if found && !o.Clean() {
			out = append(out, dataplane.KeyedObject{Key: k, Object: o})
		}
	}
	return out, nil
}

// Sessions implements [dataplane.Plane].
func (t *tables) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	keys, err := t.sessionKeys(allShards(), background)
	if err != nil {
		return err
	}
	errEnough := errors.New("enough")
	err = t.eachSession(keys, func(k chain.SessionKey, s chain.Session) error {
		if !visit(k, s) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// eachSession visits copies of the named session entries that exist.
func (t *tables) eachSession(keys keyPieces, visit func(chain.SessionKey, chain.Session) error) error {
	for _, piece := range keys {
		if err := t.objects.eachSession(nqSessionKeysOf(piece), visit); err != nil {
			return err
		}
	}
	return nil
}

func (o *objects) eachSession(keys []nqSessionKey, visit func(chain.SessionKey, chain.Session) error) error {
	b := newBatch(sessionRecordBytes)
	for len(keys) > 0 {
		b.reset()
		n := 0
		for ; n < len(keys) && !b.full(); n++ {
			if _, err := binary.Encode(b.add(), native, nqSessionRecord{Key: keys[n]}); err != nil {
				return err
			}
		}
		done, _, err := b.run(o.ExportSessions)
		if err == nil && done != n {
			err = fmt.Errorf("the program read %d of %d sessions", done, n)
		}
		if err != nil {
			return err
		}
		for i, k := range keys[:n] {
			if err := o.visitSession(k, b.record(i), visit); err != nil {
				return err
			}
		}
		keys = keys[n:]
	}
	return nil
}

// visitSession visits the entry of a record, or copies it alone if a packet disturbed the program.
func (o *objects) visitSession(k nqSessionKey, record []byte, visit func(chain.SessionKey, chain.Session) error) error {
	var r nqSessionRecord
	if _, err := binary.Decode(record, native, &r); err != nil {
		return err
	}
	entry, found := r.Entry, r.Entry.Lock == recordWhole
	if r.Entry.Lock == recordContended {
		var err error
		if entry, found, err = o.entry(k); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	return visit(k.sessionKey(), entry.session())
}

// wholeCopies is how many copies in a row with the same even lock word prove that the one in the middle is whole: no
// packet wrote between the first copy and the last. Two prove nothing, for the kernel may copy the end of an entry
// before its lock word.
const wholeCopies = 3

// entry copies the entry of a session.
func (o *objects) entry(k nqSessionKey) (nqSession, bool, error) {
	same := 0
	previous := nqSession{Lock: 1}
	for n := tries(0); n.again(); {
		var next nqSession
		err := o.Sessions.Lookup(k, &next)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return next, false, nil
		}
		if err != nil {
			return next, false, fmt.Errorf("reading sessions: %w", err)
		}
		if next.Lock&1 == 1 || next.Lock != previous.Lock {
			same = 0
		}
		if same++; same == wholeCopies {
			return previous, true, nil
		}
		previous = next
	}
	return previous, false, fmt.Errorf("session %x is written faster than it can be read", k.Session)
}

// DropSession implements [dataplane.Plane].
func (t *tables) DropSession(k chain.SessionKey, seq uint64) error {
	t.turns.take(background)
	defer t.turns.end(background)
	return t.objects.dropSessions([]nqSessionKey{sessionKeyOf(k)}, seq)
}

// dropSessions deletes those of the session entries whose last write is seq, or all of them if seq is 0.
func (o *objects) dropSessions(keys []nqSessionKey, seq uint64) error {
	err := importAll(o.DropSessions, sessionRecordBytes, len(keys), func(i int, record []byte) error {
		_, err := binary.Encode(record, native, nqSessionRecord{Key: keys[i], Entry: nqSession{Seq: seq}})
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting sessions: %w", err)
	}
	return nil
}
