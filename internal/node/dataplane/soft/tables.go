package soft

import (
	"iter"
	"maps"
	"slices"
	"unsafe"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	// visitBatch is how many sessions or objects are copied out at a time, so that a walk over many never holds up
	// packets.
	visitBatch = 256
	// sampled is how many objects Memory looks at; it takes the mean of their values for all.
	sampled = 1024

	objectBytes  = uint64(unsafe.Sizeof(wire.Key{}) + unsafe.Sizeof((*chain.Object)(nil)) + unsafe.Sizeof(chain.Object{}))
	sessionBytes = uint64(unsafe.Sizeof(chain.SessionKey{}) + unsafe.Sizeof(chain.Session{}))
)

// Usage implements [dataplane.Plane].
func (p *Plane) Usage() (dataplane.Usage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return dataplane.Usage{Objects: len(p.node.Objects()), Sessions: len(p.node.Sessions())}, nil
}

// Memory returns an estimate of the memory of the entries and of their values.
func (p *Plane) Memory() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	objects, sessions := len(p.node.Objects()), len(p.node.Sessions())
	seen, valueBytes := uint64(0), uint64(0)
	for _, object := range p.node.Objects() {
		if seen == sampled {
			break
		}
		seen++
		valueBytes += uint64(cap(object.Value))
	}
	memory := uint64(objects)*objectBytes + uint64(sessions)*sessionBytes
	if seen > 0 {
		memory += valueBytes * uint64(objects) / seen
	}
	return memory, nil
}

// Dirty returns up to limit objects that are not clean, but for those that this node commits. It looks at no others.
func (p *Plane) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var dirty []dataplane.KeyedObject
	for key := range p.dirty {
		if len(dirty) >= limit {
			break
		}
		if c := p.node.Config(key.Shard(p.options.Shards)); c.State == chain.Active && c.Tail() {
			continue
		}
		dirty = append(dirty, dataplane.KeyedObject{Key: key, Object: copyOf(p.node.Objects()[key])})
	}
	return dirty, nil
}

// Sessions calls visit for every session. Packets are answered between the calls: a session that comes or goes
// meanwhile may be visited or not.
func (p *Plane) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	next, stop := iter.Pull2(maps.All(p.node.Sessions()))
	defer stop()
	for {
		batch := p.nextSessions(next)
		for _, s := range batch {
			if !visit(s.Key, s.Session) {
				return nil
			}
		}
		if len(batch) == 0 {
			return nil
		}
	}
}

// nextSessions copies some sessions out. The map changes between the calls: that is within what the language allows a
// range over it.
func (p *Plane) nextSessions(next func() (chain.SessionKey, chain.Session, bool)) []dataplane.KeyedSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []dataplane.KeyedSession
	for len(batch) < visitBatch {
		k, s, ok := next()
		if !ok {
			break
		}
		batch = append(batch, dataplane.KeyedSession{Key: k, Session: s})
	}
	return batch
}

// DropSession forgets a session if its last write is still seq.
func (p *Plane) DropSession(k chain.SessionKey, seq uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node.DropSession(k, seq)
	return nil
}

func copyOf(object *chain.Object) chain.Object {
	c := *object
	c.Value = slices.Clone(object.Value)
	return c
}
