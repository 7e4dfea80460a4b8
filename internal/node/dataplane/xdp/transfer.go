package xdp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

func (t *tables) setOf(shards []uint16) (*shardSet, error) {
	set := new(shardSet)
	for _, shard := range shards {
		if err := t.shards.check(shard); err != nil {
			return nil, err
		}
		set.add(shard)
	}
	return set, nil
}

// Export implements [dataplane.Plane]. It first lists the keys: so a slow visitor holds up no other walk.
func (t *tables) Export(
	w dataplane.Wanted, object func(wire.Key, chain.Object) error, session func(chain.SessionKey, chain.Session) error,
) error {
	set, err := t.setOf(w.Shards())
	if err != nil {
		return err
	}
	since, p := new(sinceSet), background
	for shard, epoch := range w.Since {
		if since[shard] = epoch; epoch != 0 {
			p = urgently
		}
	}
	found, err := t.changedKeys(set, since, p)
	if err != nil {
		return err
	}
	for _, k := range w.Keys {
		if set.has(k.Shard(t.options.Shards)) {
			found.add(keyBytes(k))
		}
	}
	for _, piece := range found {
		if err := t.objects.export(keysOf(piece), recordBytes(t.options), object); err != nil {
			return err
		}
	}
	sessions, err := t.sessionKeys(set, p)
	if err != nil {
		return err
	}
	return t.eachSession(sessions, session)
}

// Import implements [dataplane.Plane].
func (t *tables) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	if err := t.objects.importObjects(objects, t.options); err != nil {
		return err
	}
	return t.objects.importSessions(sessions)
}

// Drop implements [dataplane.Plane]. No packet looks at entries of a shard that is not served, so that they can be
// deleted without their locks.
func (t *tables) Drop(shards []uint16) error {
	set, err := t.setOf(shards)
	if err != nil {
		return err
	}
	keys, err := t.objectKeys(set, background, anyObject)
	if err != nil {
		return err
	}
	err = t.forget(shards, keys, background, t.table.remove)
	return errors.Join(err, t.dropSessions(shards, set, nil, background))
}

// Doubt implements [dataplane.Plane], without locks as Drop does.
func (t *tables) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	set, err := t.setOf(shards)
	if err != nil {
		return nil, err
	}
	keys, err := t.objectKeys(set, urgently, isDoubtful)
	if err != nil {
		return nil, err
	}
	err = t.forget(shards, keys, urgently, func(piece []tableKey) error {
		if err := t.table.blank(piece); err != nil {
			return fmt.Errorf("giving up objects: %w", err)
		}
		return nil
	})
	return keysOf(slices.Concat(keys...)), errors.Join(err, t.dropSessions(shards, set, gone, urgently))
}

// Doubtful implements [dataplane.Plane].
func (t *tables) Doubtful(shards []uint16) ([]wire.Key, error) {
	set, err := t.setOf(shards)
	if err != nil {
		return nil, err
	}
	found, err := t.objectKeys(set, urgently, isDoubtful)
	return keysOf(slices.Concat(found...)), err
}

// dropSessions deletes the sessions of shards that are not served, and calls gone, if it is not nil, with each before.
func (t *tables) dropSessions(
	shards []uint16, set *shardSet, gone func(chain.SessionKey, chain.Session), p pace,
) error {
	sessions, err := t.sessionKeys(set, p)
	if err == nil && gone != nil {
		work := newStretch(p.rest)
		err = t.eachSession(sessions, func(k chain.SessionKey, s chain.Session) error {
			gone(k, s)
			work.part()
			return nil
		})
	}
	if err != nil {
		return err
	}
	return t.forget(shards, sessions, p, func(piece []tableKey) error {
		return t.objects.dropSessions(nqSessionKeysOf(piece), 0)
	})
}

// forget does something to entries of shards, a piece at a time. It fails for shards that are served, even if they have
// no entries.
func (t *tables) forget(shards []uint16, keys keyPieces, p pace, do func(piece []tableKey) error) error {
	if len(keys) == 0 {
		keys = keyPieces{nil}
	}
	for _, piece := range keys {
		if err := t.forgetSome(shards, p, func() error { return do(piece) }); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) forgetSome(shards []uint16, p pace, do func() error) error {
	t.turns.take(p)
	defer t.turns.end(p)
	t.configuring.Lock()
	defer t.configuring.Unlock()
	for _, shard := range shards {
		if t.shards.config(shard).State != chain.None {
			return dataplane.ServedError(shard)
		}
	}
	if t.unquiet {
		if err := t.outlast(); err != nil {
			return err
		}
	}
	return do()
}
