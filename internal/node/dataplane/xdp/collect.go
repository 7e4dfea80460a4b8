package xdp

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// Collect implements [dataplane.Plane]. Packets may have found an object before it is removed: each compares the key of
// the cell that it has locked.
func (t *tables) Collect() (map[uint16]dataplane.Tombstones, error) {
	t.collecting.Lock()
	defer t.collecting.Unlock()
	set := new(shardSet)
	for shard := range uint16(t.options.Shards) {
		if c := t.shards.config(shard); c.State == chain.Active && !c.Learner {
			set.add(shard)
		}
	}
	if err := t.settle(); err != nil {
		return nil, err
	}
	left := make(map[uint16]dataplane.Tombstones)
	found, err := t.objectKeys(set, background, isTombstone)
	if err != nil || len(found) == 0 {
		return left, err
	}
	for _, piece := range found {
		if err := t.collectPiece(piece, left); err != nil {
			return left, err
		}
	}
	return left, nil
}

// settle waits until no packet is handled by a configuration that was replaced.
func (t *tables) settle() error {
	t.configuring.Lock()
	defer t.configuring.Unlock()
	if !t.unquiet {
		return nil
	}
	return t.outlast()
}

// collectPiece removes objects while no walk goes on.
func (t *tables) collectPiece(keys []tableKey, left map[uint16]dataplane.Tombstones) error {
	t.turns.take(background)
	defer t.turns.end(background)
	b := newBatch(objectRecordBytes)
	for len(keys) > 0 {
		b.reset()
		n := 0
		for ; n < len(keys) && !b.full(); n++ {
			copy(b.add(), keys[n][:])
		}
		done, _, err := b.run(t.objects.Collect)
		if err == nil && done != n {
			err = fmt.Errorf("the program looked at %d of %d objects", done, n)
		}
		if err != nil {
			return fmt.Errorf("collecting tombstones: %w", err)
		}
		for i, key := range keys[:n] {
			_, o, err := decodeRecord(b.record(i))
			if err != nil {
				return err
			}
			if o.Version != 0 {
				shard := keyOf(key[:]).Shard(t.options.Shards)
				tombstones := left[shard]
				tombstones.Add(o.Version)
				left[shard] = tombstones
			}
		}
		keys = keys[n:]
	}
	return nil
}
