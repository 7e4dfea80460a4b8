package xdp

import (
	"errors"
	"sync/atomic"

	"github.com/cilium/ebpf"

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
func (t *tables) Export(shards []uint16, object func(wire.Key, chain.Object) error, session func(chain.SessionKey, chain.Session) error) error {
	set, err := t.setOf(shards)
	if err != nil {
		return err
	}
	keys, err := t.objectKeys(set)
	if err != nil {
		return err
	}
	if err := t.objects.export(keys, recordBytes(t.options), object); err != nil {
		return err
	}
	lanes, err := t.laneKeys(set)
	if err != nil {
		return err
	}
	return t.objects.eachLane(lanes, session)
}

// Import implements [dataplane.Plane].
func (t *tables) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	if err := t.objects.importObjects(objects, t.options); err != nil {
		return err
	}
	return t.objects.importSessions(sessions)
}

// dropPiece is how many entries Drop deletes at a time, while ConfigureAll and walks wait.
const dropPiece = 1024

// Drop implements [dataplane.Plane]. No packet looks at entries of a shard that is not served, so that they can be deleted
// without their locks.
func (t *tables) Drop(shards []uint16) error {
	set, err := t.setOf(shards)
	if err != nil {
		return err
	}
	keys, err := t.objectKeys(set)
	if err != nil {
		return err
	}
	lanes, err := t.laneKeys(set)
	if err != nil {
		return err
	}
	raw := make([][keyBytesInTables]byte, len(keys))
	for i, k := range keys {
		raw[i] = keyBytes(k)
	}
	return errors.Join(dropAll(t, shards, t.objects.Objects, &t.usage[tableObjects], raw),
		dropAll(t, shards, t.objects.Lanes, &t.usage[tableLanes], lanes))
}

// dropAll deletes entries of a table, a piece at a time.
func dropAll[K any](t *tables, shards []uint16, table *ebpf.Map, used *uint64, keys []K) error {
	for {
		piece := keys[:min(len(keys), dropPiece)]
		if err := dropSome(t, shards, table, used, piece); err != nil || len(piece) == len(keys) {
			return err
		}
		keys = keys[len(piece):]
	}
}

func dropSome[K any](t *tables, shards []uint16, table *ebpf.Map, used *uint64, keys []K) error {
	t.walking.Lock()
	defer t.walking.Unlock()
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
	for len(keys) > 0 {
		n, err := table.BatchDelete(keys, nil)
		atomic.AddUint64(used, -uint64(n))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ebpf.ErrKeyNotExist):
			return err
		}
		keys = keys[n+1:] // a walk may meet an entry twice, and a session may have been dropped
	}
	return nil
}
