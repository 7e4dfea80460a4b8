package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// shardSet is some of a cluster's shards: a bit each.
type shardSet []uint64

func (p *Plane) setOf(shards []uint16) (shardSet, error) {
	set := make(shardSet, (p.info.Options.Shards+63)/64)
	for _, shard := range shards {
		if err := p.live.check(shard); err != nil {
			return nil, err
		}
		set[shard/64] |= 1 << (shard % 64)
	}
	return set, nil
}

func (s shardSet) has(shard uint16) bool { return s[shard/64]>>(shard%64)&1 == 1 }

// Export implements [dataplane.Plane].
func (p *Plane) Export(shards []uint16, object func(wire.Key, chain.Object) error, session func(chain.SessionKey, chain.Session) error) error {
	set, err := p.setOf(shards)
	if err != nil {
		return err
	}
	keys, err := p.keys(set)
	if err != nil {
		return err
	}
	for _, k := range keys {
		o, found, err := p.Object(k)
		if err == nil && found {
			err = object(k, o)
		}
		if err != nil {
			return err
		}
	}
	sessionErr := p.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		if set.has(k.Shard) {
			err = session(k, s)
		}
		return err == nil
	})
	return errors.Join(err, sessionErr)
}

// keys lists the keys of all objects of some shards.
func (p *Plane) keys(set shardSet) ([]wire.Key, error) {
	var out []wire.Key
	var key, entry []byte
	entries := p.objects.Objects.Iterate()
	for entries.Next(&key, &entry) {
		if k := keyOf(key); set.has(k.Shard(p.info.Options.Shards)) {
			out = append(out, k)
		}
	}
	return out, entries.Err()
}

// Import implements [dataplane.Plane].
func (p *Plane) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	for _, o := range objects {
		have, _, err := p.Object(o.Key)
		if err != nil {
			return err
		}
		if have.Version > o.Object.Version {
			o.Object.Committed = max(have.Committed, o.Object.Committed)
			have.Committed = o.Object.Committed
			o.Object = have
		}
		entry, err := encodeObject(o.Object, objectBytes+cellBytes(p.info.Options))
		if err != nil {
			return err
		}
		if err := p.objects.Objects.Put(keyBytes(o.Key), entry); err != nil {
			return fmt.Errorf("objects: %w", errors.Join(dataplane.ErrFull, err))
		}
	}
	for _, s := range sessions {
		if err := p.objects.Lanes.Put(laneKeyOf(s.Key), laneOf(s.Key, s.Session)); err != nil {
			return fmt.Errorf("sessions: %w", errors.Join(dataplane.ErrFull, err))
		}
	}
	return nil
}

// Drop implements [dataplane.Plane].
func (p *Plane) Drop(shards []uint16) error {
	set, err := p.setOf(shards)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		c, err := p.Config(shard)
		if err != nil {
			return err
		}
		if c.State != chain.None {
			return dataplane.ServedError(shard)
		}
	}
	keys, err := p.keys(set)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := p.objects.Objects.Delete(keyBytes(k)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return p.Sessions(func(k chain.SessionKey, _ chain.Session) bool {
		if set.has(k.Shard) {
			err = p.objects.Lanes.Delete(laneKeyOf(k))
		}
		return err == nil
	})
}

// Loads implements [dataplane.Plane].
func (p *Plane) Loads() ([]dataplane.ShardLoad, error) {
	return make([]dataplane.ShardLoad, p.info.Options.Shards), nil
}
