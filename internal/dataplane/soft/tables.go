package soft

import (
	"slices"
	"unsafe"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	// visitBatch is how many sessions are copied out at a time, so that a walk over many never holds up packets.
	visitBatch = 256
	// sampled is how many objects Usage looks at; it takes the mean of their values for all.
	sampled = 1024

	objectBytes  = uint64(unsafe.Sizeof(wire.Key{}) + unsafe.Sizeof((*chain.Object)(nil)) + unsafe.Sizeof(chain.Object{}))
	sessionBytes = uint64(unsafe.Sizeof(chain.SessionKey{}) + unsafe.Sizeof(chain.Session{}))
)

// Usage returns how much of the tables is taken. The memory is an estimate: of the entries and of their values.
func (p *Plane) Usage() (dataplane.Usage, error) {
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
	return dataplane.Usage{Objects: objects, Sessions: sessions, MemoryBytes: memory}, nil
}

// Dirty returns up to limit objects that are not clean. It looks at no others.
func (p *Plane) Dirty(limit int) ([]dataplane.DirtyObject, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var dirty []dataplane.DirtyObject
	for key := range p.dirty {
		if len(dirty) >= limit {
			break
		}
		dirty = append(dirty, dataplane.DirtyObject{Key: key, Object: copyOf(p.node.Objects()[key])})
	}
	return dirty, nil
}

// Sessions calls visit for every session. Packets are answered between the calls: a session that comes or goes
// meanwhile may be visited or not.
func (p *Plane) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	type entry struct {
		key     chain.SessionKey
		session chain.Session
	}
	entries := make([]entry, 0, visitBatch)
	flush := func() bool {
		for _, e := range entries {
			if !visit(e.key, e.session) {
				return false
			}
		}
		entries = entries[:0]
		return true
	}
	p.mu.Lock()
	for key, session := range p.node.Sessions() {
		if entries = append(entries, entry{key, session}); len(entries) < visitBatch {
			continue
		}
		// The map may change while the lock is given up: that is within what the language allows a range loop.
		p.mu.Unlock()
		if !flush() {
			return nil
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	flush()
	return nil
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
