package soft

import (
	"fmt"
	"iter"
	"maps"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// shardSet is some of a cluster's shards.
type shardSet map[uint16]struct{}

func (p *Plane) setOf(shards []uint16) (shardSet, error) {
	set := make(shardSet, len(shards))
	for _, shard := range shards {
		if int(shard) >= p.options.Shards {
			return nil, fmt.Errorf("shard %d: there are %d", shard, p.options.Shards)
		}
		set[shard] = struct{}{}
	}
	return set, nil
}

func (s shardSet) has(shard uint16) bool {
	_, ok := s[shard]
	return ok
}

// Export visits the objects that are wanted, and every session of their shards. Packets are answered between the calls.
func (p *Plane) Export(
	w dataplane.Wanted, object func(wire.Key, chain.Object) error, session func(chain.SessionKey, chain.Session) error,
) error {
	set, err := p.setOf(w.Shards())
	if err != nil {
		return err
	}
	asked := make(map[wire.Key]bool, len(w.Keys))
	for _, k := range w.Keys {
		asked[k] = true
	}
	next, stop := iter.Pull2(maps.All(p.node.Objects()))
	defer stop()
	for {
		batch, more := p.nextObjects(next, func(k wire.Key, o *chain.Object) bool {
			since, wanted := w.Since[k.Shard(p.options.Shards)]
			return wanted && (asked[k] || dataplane.Changed(o, since))
		})
		for _, o := range batch {
			if err := object(o.Key, o.Object); err != nil {
				return err
			}
		}
		if !more {
			break
		}
	}
	err = p.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		if set.has(k.Shard) {
			err = session(k, s)
		}
		return err == nil
	})
	return err
}

// nextObjects looks at some objects and copies those out that are wanted.
func (p *Plane) nextObjects(
	next func() (wire.Key, *chain.Object, bool), wanted func(wire.Key, *chain.Object) bool,
) (batch []dataplane.KeyedObject, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range visitBatch {
		k, o, ok := next()
		if !ok {
			return batch, false
		}
		if wanted(k, o) {
			batch = append(batch, dataplane.KeyedObject{Key: k, Object: copyOf(o)})
		}
	}
	return batch, true
}

// Import puts in copies from another node.
func (p *Plane) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range objects {
		if len(o.Object.Value) > p.options.CellBytes {
			return fmt.Errorf("object %v has %d bytes, this node's cells have %d", o.Key, len(o.Object.Value), p.options.CellBytes)
		}
		if !p.node.MergeObject(o.Key, o.Object) {
			return fmt.Errorf("objects: %w", dataplane.ErrFull)
		}
		p.mark(o.Key)
	}
	for _, s := range sessions {
		if !p.node.MergeSession(s.Key, s.Session) {
			return fmt.Errorf("sessions: %w", dataplane.ErrFull)
		}
	}
	return nil
}

// Drop deletes all objects and sessions of some shards, a few at a time.
func (p *Plane) Drop(shards []uint16) error {
	return p.forget(shards, func(k wire.Key, _ *chain.Object) { p.node.DropObject(k) }, nil)
}

// Doubt makes objects that are not clean empty ones, and deletes all sessions, a few at a time.
func (p *Plane) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	err := p.forget(shards, func(k wire.Key, o *chain.Object) {
		if !o.Clean() {
			p.node.PutObject(k, chain.Object{})
		}
	}, gone)
	if err != nil {
		return nil, err
	}
	return p.Doubtful(shards)
}

// Doubtful lists the objects that have no version or are not clean.
func (p *Plane) Doubtful(shards []uint16) ([]wire.Key, error) {
	set, err := p.setOf(shards)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.Doubtful(set.has), nil
}

// forget does something to the objects of some shards, and deletes their sessions.
func (p *Plane) forget(
	shards []uint16, object func(wire.Key, *chain.Object), gone func(chain.SessionKey, chain.Session),
) error {
	set, err := p.setOf(shards)
	if err != nil {
		return err
	}
	nextObject, stopObjects := iter.Pull2(maps.All(p.node.Objects()))
	defer stopObjects()
	nextSession, stopSessions := iter.Pull2(maps.All(p.node.Sessions()))
	defer stopSessions()
	for {
		if more, err := p.forgetSome(set, object, gone, nextObject, nextSession); err != nil || !more {
			return err
		}
	}
}

func (p *Plane) forgetSome(
	set shardSet, object func(wire.Key, *chain.Object), gone func(chain.SessionKey, chain.Session),
	nextObject func() (wire.Key, *chain.Object, bool), nextSession func() (chain.SessionKey, chain.Session, bool),
) (more bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard := range set {
		if p.node.Config(shard).State != chain.None {
			return false, dataplane.ServedError(shard)
		}
	}
	for range visitBatch {
		k, o, isObject := nextObject()
		if isObject && set.has(k.Shard(p.options.Shards)) {
			object(k, o)
			delete(p.dirty, k)
		}
		key, session, isSession := nextSession()
		if isSession && set.has(key.Shard) {
			if gone != nil {
				gone(key, session)
			}
			p.node.DropSession(key, session.Seq)
		}
		if !isObject && !isSession {
			return false, nil
		}
	}
	return true, nil
}
