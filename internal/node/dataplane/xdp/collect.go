package xdp

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// Collect implements [dataplane.Plane]. A packet may have looked up an entry before it is deleted, and used again for
// another key. So from before the first entry is deleted until all packets have ended that were under way at the last,
// packets compare the entry that they have locked with the one of their key, and new entries have a mark, so that no
// packet reads them without the lock.
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
	if err := t.blank(true); err != nil {
		return nil, err
	}
	atomic.StoreUint64(&t.usage[collecting], 1)
	for _, piece := range found {
		if err = t.collectPiece(piece, left); err != nil {
			break
		}
	}
	return left, errors.Join(err, t.collected())
}

// collected ends a collection, once all packets have ended that may have looked up an entry that was deleted.
func (t *tables) collected() error {
	if err := t.quiesce(); err != nil {
		return fmt.Errorf("waiting for packets under way: %w", err)
	}
	if err := t.blank(false); err != nil {
		return err
	}
	atomic.StoreUint64(&t.usage[collecting], 0)
	return nil
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

// blank says how new entries begin: with another sequence number than before, and marked while entries are deleted.
func (t *tables) blank(reused bool) error {
	if err := t.table.begin(reused); err != nil {
		return fmt.Errorf("collecting tombstones: %w", err)
	}
	return nil
}

// collectPiece deletes objects while no walk goes on.
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
