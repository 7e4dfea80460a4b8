package xdp

import (
	"errors"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

func (p *Plane) setOf(shards []uint16) (*shardSet, error) {
	set := new(shardSet)
	for _, shard := range shards {
		if err := p.shards.check(shard); err != nil {
			return nil, err
		}
		set.add(shard)
	}
	return set, nil
}

// Export implements [dataplane.Plane]. It first lists the keys: so a slow visitor holds up no other walk.
func (p *Plane) Export(shards []uint16, object func(wire.Key, chain.Object) error, session func(chain.SessionKey, chain.Session) error) error {
	set, err := p.setOf(shards)
	if err != nil {
		return err
	}
	keys, err := p.objectKeys(set)
	if err != nil {
		return err
	}
	if err := p.objects.export(keys, recordBytes(p.info.Options), object); err != nil {
		return err
	}
	lanes, err := p.laneKeys(set)
	if err != nil {
		return err
	}
	return p.objects.eachLane(lanes, session)
}

// Import implements [dataplane.Plane].
func (p *Plane) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	if err := p.objects.importObjects(objects, p.info.Options); err != nil {
		return err
	}
	return p.objects.importSessions(sessions)
}

// dropPiece is how many entries Drop deletes at a time, while ConfigureAll and walks wait.
const dropPiece = 1024

// Drop implements [dataplane.Plane]. No packet looks at entries of a shard that is not served, so that they can be deleted
// without their locks.
func (p *Plane) Drop(shards []uint16) error {
	set, err := p.setOf(shards)
	if err != nil {
		return err
	}
	keys, err := p.objectKeys(set)
	if err != nil {
		return err
	}
	lanes, err := p.laneKeys(set)
	if err != nil {
		return err
	}
	raw := make([][keyBytesInTables]byte, len(keys))
	for i, k := range keys {
		raw[i] = keyBytes(k)
	}
	return errors.Join(dropAll(p, shards, p.objects.Objects, &p.usage[tableObjects], raw),
		dropAll(p, shards, p.objects.Lanes, &p.usage[tableLanes], lanes))
}

// dropAll deletes entries of a table, a piece at a time.
func dropAll[K any](p *Plane, shards []uint16, table *ebpf.Map, used *uint64, keys []K) error {
	for {
		piece := keys[:min(len(keys), dropPiece)]
		if err := dropSome(p, shards, table, used, piece); err != nil || len(piece) == len(keys) {
			return err
		}
		keys = keys[len(piece):]
	}
}

func dropSome[K any](p *Plane, shards []uint16, table *ebpf.Map, used *uint64, keys []K) error {
	p.walking.Lock()
	defer p.walking.Unlock()
	p.configuring.Lock()
	defer p.configuring.Unlock()
	for _, shard := range shards {
		if p.shards.config(shard).State != chain.None {
			return dataplane.ServedError(shard)
		}
	}
	if p.unquiet {
		if err := p.quiesce(); err != nil {
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
