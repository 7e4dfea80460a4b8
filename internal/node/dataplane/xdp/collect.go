package xdp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// Collect implements [dataplane.Plane]. A packet may have looked up an entry before it is deleted, and used again for
// another key. So packets compare the entry that they have locked with the one of their key, from before the first
// entry is deleted until all packets have ended that were under way at the last.
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
	if err := t.renumber(); err != nil {
		return nil, err
	}
	atomic.StoreUint64(&t.usage[collecting], 1)
	for _, piece := range found {
		if err = t.collectPiece(piece, left); err != nil {
			break
		}
	}
	if quiet := t.quiesce(); quiet != nil {
		return nil, errors.Join(err, fmt.Errorf("waiting for packets under way: %w", quiet))
	}
	atomic.StoreUint64(&t.usage[collecting], 0)
	return left, err
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

// renumber draws the sequence number with which new entries begin.
func (t *tables) renumber() error {
	entry := make([]byte, objectBytes+cellBytes(t.options))
	native.PutUint32(entry, rand.Uint32()&^1)
	if err := t.objects.Blank.Put(uint32(0), entry); err != nil {
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
