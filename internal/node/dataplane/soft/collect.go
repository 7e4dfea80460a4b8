package soft

import (
	"iter"
	"maps"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Collect deletes tombstones and empty objects, a few at a time.
func (p *Plane) Collect() (map[uint16]dataplane.Tombstones, error) {
	left := make(map[uint16]dataplane.Tombstones)
	next, stop := iter.Pull2(maps.All(p.node.Objects()))
	defer stop()
	for p.collectSome(next, left) {
	}
	return left, nil
}

func (p *Plane) collectSome(next func() (wire.Key, *chain.Object, bool), left map[uint16]dataplane.Tombstones) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range visitBatch {
		k, o, ok := next()
		if !ok {
			return false
		}
		shard := k.Shard(p.options.Shards)
		switch c := p.node.Config(shard); {
		case c.Collectable(o, p.options.Without):
			p.node.DropObject(k)
			delete(p.dirty, k)
		case c.State == chain.Active && !c.Learner && o.Tombstone && c.Settled(o):
			t := left[shard]
			t.Add(o.Version)
			left[shard] = t
		}
	}
	return true
}
