package chainlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/netcraq/netcraq/client"
)

// secretBytes is the length of a keyspace's secret.
const secretBytes = 32

// Create makes a keyspace, if it is certain that the chain has none of that name. Only the holder of the keyspace's
// lock may call it; term is the lock's token. entries is the length of the ring, and revision that of the keyspace
// before its first entry. The error is ErrLost if the chain has objects of such a keyspace, but not its description.
func Create(ctx context.Context, chain *client.Client, name string, term uint64, entries int, revision int64) (*Log,
	error) {
	if entries < minEntries {
		return nil, fmt.Errorf("a log has at least %d entries, not %d", minEntries, entries)
	}
	var id [8]byte
	rand.Read(id[:])
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	l := newLog(chain, name, meta{
		Format: formatMeta, ID: binary.BigEndian.Uint64(id[:]) | 1, Entries: entries, Revision: revision, Secret: secret,
	})
	version, err := l.begin(ctx, term)
	if err != nil {
		return nil, err
	}
	if err := l.probe(ctx, l.prefix+"probe"); err != nil {
		return nil, err
	}
	l.meta.ValueBytes = l.valueBytes
	if err := l.clear(ctx, term); err != nil {
		return nil, err
	}
	if _, err := l.describe(ctx, term, 0, version); err != nil {
		return nil, err
	}
	return Open(ctx, chain, name)
}

// begin notes that the keyspace is being made, and returns the version of the note. From then on an object that is
// missing means that the chain has lost it.
func (l *Log) begin(ctx context.Context, term uint64) (version uint64, err error) {
	for {
		found, version, err := l.everywhere(ctx)
		switch {
		case err != nil:
			if err := l.passing(ctx, l.metaKey(), err); err != nil {
				return 0, err
			}
			continue
		case found == nil:
			err = l.absent(ctx)
		case found.term > term:
			err = ErrDeposed
		case found.flags&flagUnfinished == 0:
			err = fmt.Errorf("%w: it was made meanwhile", ErrDeposed)
		}
		if err != nil {
			return 0, err
		}
		return l.describe(ctx, term, flagUnfinished, version)
	}
}

// everywhere reads the description at every member of its chain. It returns nil, and a version to write at, if none of
// them has it: one member might have lost its state.
func (l *Log) everywhere(ctx context.Context) (found *record, version uint64, err error) {
	at, err := l.chain.Locate(l.metaKey())
	if err != nil {
		return nil, 0, err
	}
	for _, node := range at.Chain {
		r, err := l.chain.Get(ctx, l.metaKey(), client.From(client.Named(node)))
		if errors.Is(err, client.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		other, err := decode(r.Value)
		if err != nil {
			return nil, 0, fmt.Errorf("the key %s holds something other than a keyspace: name another keyspace", l.metaKey())
		}
		found, version = &other, max(version, r.Version)
	}
	return found, version, nil
}

// absent makes sure that the chain has no other object of a keyspace without a description.
func (l *Log) absent(ctx context.Context) error {
	keys := []string{l.pointerKey()}
	for i := range l.entries {
		keys = append(keys, l.entryKey(i))
	}
	for len(keys) > 0 {
		some := keys[:min(readAhead, len(keys))]
		for i, o := range l.chain.GetMany(ctx, some) {
			for o.Err != nil && !errors.Is(o.Err, client.ErrNotFound) {
				if err := l.passing(ctx, some[i], o.Err); err != nil {
					return err
				}
				o.Result, o.Err = l.chain.Get(ctx, some[i])
			}
			if o.Err == nil {
				return fmt.Errorf("%w: it has %s, and not %s. If no gateway serves it any more, name another keyspace",
					ErrLost, some[i], l.metaKey())
			}
		}
		keys = keys[len(some):]
	}
	return nil
}

// describe writes the description over that of a version, and returns the new version.
func (l *Log) describe(ctx context.Context, term uint64, flags byte, version uint64) (uint64, error) {
	text, err := json.Marshal(l.meta)
	if err != nil {
		return 0, err
	}
	own := record{keyspace: l.id, term: term, flags: flags, payload: text}
	for {
		r, err := l.chain.CAS(ctx, l.metaKey(), version, own.encode())
		if err == nil {
			return r.Version, nil
		}
		if !errors.Is(err, client.ErrCASFailed) {
			if err := l.passing(ctx, l.metaKey(), err); err != nil {
				return 0, err
			}
		}
		found, err := l.chain.Get(ctx, l.metaKey())
		if errors.Is(err, client.ErrNotFound) && flags&flagUnfinished != 0 {
			version = 0
			continue
		}
		if err != nil {
			if err := l.passing(ctx, l.metaKey(), err); err != nil {
				return 0, err
			}
			continue
		}
		switch other, err := decode(found.Value); {
		case found.Version == version: // ours is not there yet
		case err == nil && other.keyspace == l.id && other.flags == flags: // a try of unknown outcome
			return found.Version, nil
		default:
			return 0, fmt.Errorf("%w: it makes the keyspace", ErrDeposed)
		}
	}
}

// clear writes every object of the ring, so that they have their places in the chain, and a missing one means that the
// chain has lost its state.
func (l *Log) clear(ctx context.Context, term uint64) error {
	none, err := json.Marshal(Snapshot{})
	if err != nil {
		return err
	}
	empty := record{keyspace: l.id, term: term}
	pointer := record{keyspace: l.id, term: term, payload: none}
	keys, values := []string{l.pointerKey()}, [][]byte{pointer.encode()}
	for i := range l.entries {
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
