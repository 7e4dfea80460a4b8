package p4

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Export is [dataplane.Plane].Export.
func (n *Node) Export(w dataplane.Wanted, object func(wire.Key, chain.Object) error,
	session func(chain.SessionKey, chain.Session) error) error {
	for shard := range w.Since {
		if err := n.check(shard); err != nil {
			return err
		}
	}
	named := make(map[wire.Key]bool, len(w.Keys))
	for _, k := range w.Keys {
		named[k] = true
	}
	var found []dataplane.KeyedObject
	err := n.walk(func(k wire.Key, _ uint32, c *cell) (bool, error) {
		since, wanted := w.Since[k.Shard(n.options.Shards)]
		if o := c.object(); wanted && (dataplane.Changed(&o, since) || named[k]) {
			found = append(found, dataplane.KeyedObject{Key: k, Object: o})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, o := range found { // without the lock: visitors may take their time
		if err := object(o.Key, o.Object); err != nil {
			return err
		}
	}
	return n.visitEntries(func(l *sessionEntry) (bool, error) {
		if _, wanted := w.Since[l.key.Shard]; !wanted {
			return true, nil
		}
		return true, session(l.key, l.Session)
	})
}

// Import is [dataplane.Plane].Import.
func (n *Node) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	for _, o := range objects {
		if len(o.Object.Value) > n.options.CellBytes {
			return fmt.Errorf("object %v has %d bytes, this node's cells have %d", o.Key, len(o.Object.Value), n.options.CellBytes)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.together(func() error {
		for _, o := range objects {
			if err := n.merge(o.Key, &o.Object); err != nil {
				return err
			}
		}
		for _, s := range sessions {
			if ok, err := n.putEntry(s.Key, &s.Session, true); err != nil {
				return err
			} else if !ok {
				return fmt.Errorf("sessions: %w", dataplane.ErrFull)
			}
		}
		return nil
	})
}

// merge takes over another node's copy of an object. The caller holds the switch.
func (n *Node) merge(k wire.Key, o *chain.Object) error {
	var r Request
	place, ok := n.place(k)
	if !ok {
		if place, ok = n.give(&r, k); !ok {
			n.setFull(&r, true)
			if err := n.sw.Do(&r); err != nil {
				return err
			}
			return fmt.Errorf("objects: %w", dataplane.ErrFull)
		}
	}
	var have [1]cell
	readCells(&r, int(place), have[:])
	if err := n.sw.Do(&r); err != nil {
		return err
	}
	now := have[0]
	if o.Version > now.version {
		newer := cellOf(o)
		newer.committed, newer.epoch, newer.reads, newer.writes = now.committed, 0, now.reads, now.writes
		now = newer
	}
	if o.Committed > now.committed {
		if now.committed = o.Committed; now.version == now.committed {
			now.epoch = uint64(o.Epoch)
		}
	}
	r = Request{}
	writeCell(&r, place, &now)
	return n.sw.Do(&r)
}

// unserved makes a set of shards, none of which may be served here. The caller holds the lock.
func (n *Node) unserved(shards []uint16) (map[uint16]bool, error) {
	set := make(map[uint16]bool, len(shards))
	for _, shard := range shards {
		if err := n.check(shard); err != nil {
			return nil, err
		}
		set[shard] = true
		if n.configs[shard].State != chain.None {
			return nil, dataplane.ServedError(shard)
		}
	}
	return set, nil
}

// forget changes the objects of some shards, which are not served, and deletes their sessions; it calls gone, if it is
// not nil, with each of them.
func (n *Node) forget(
	shards []uint16, change func(r *Request, k wire.Key, place uint32, c *cell), gone func(chain.SessionKey, chain.Session),
) error {
	n.mu.Lock()
	set, err := n.unserved(shards)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	var r Request
	err = n.walk(func(k wire.Key, place uint32, c *cell) (bool, error) {
		if !set[k.Shard(n.options.Shards)] {
			return true, nil
		}
		if _, err := n.unserved(shards); err != nil {
			return false, err
		}
		change(&r, k, place, c)
		err := n.sw.Do(&r)
		r = Request{}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	var sessions []chain.SessionKey
	err = n.visitEntries(func(l *sessionEntry) (bool, error) {
		if set[l.key.Shard] {
			sessions = append(sessions, l.key)
		}
		return true, nil
	})
	for _, k := range sessions {
		if err != nil {
			break
		}
		n.mu.Lock()
		err = n.dropEntry(k, func(s *chain.Session) bool {
			if gone != nil {
				gone(k, *s)
			}
			return true
		})
		n.mu.Unlock()
	}
	return err
}

// Doubt is [dataplane.Plane].Doubt.
func (n *Node) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	err := n.forget(shards, func(r *Request, _ wire.Key, place uint32, c *cell) {
		if c.version != c.committed {
			writeCell(r, place, new(cell))
		}
	}, gone)
	if err != nil {
		return nil, err
	}
	return n.Doubtful(shards)
}

// Doubtful is [dataplane.Plane].Doubtful.
func (n *Node) Doubtful(shards []uint16) ([]wire.Key, error) {
	set := make(map[uint16]bool, len(shards))
	for _, shard := range shards {
		if err := n.check(shard); err != nil {
			return nil, err
		}
		set[shard] = true
	}
	var keys []wire.Key
	err := n.walk(func(k wire.Key, _ uint32, c *cell) (bool, error) {
		if (c.version == 0 || c.version != c.committed) && set[k.Shard(n.options.Shards)] {
			keys = append(keys, k)
		}
		return true, nil
	})
	return keys, err
}

// Drop is [dataplane.Plane].Drop.
func (n *Node) Drop(shards []uint16) error {
	return n.forget(shards, func(r *Request, k wire.Key, _ uint32, _ *cell) { n.take(r, k) }, nil)
}

// Memory is [dataplane.Plane].Memory: that of the registers, which are there from the beginning.
func (n *Node) Memory() (uint64, error) {
	return uint64(MaxObjects*len(objectArrays)*8 + MaxSessions*8*8), nil
}

// Usage is [dataplane.Plane].Usage.
func (n *Node) Usage() (dataplane.Usage, error) {
	n.mu.Lock()
	objects := len(n.places)
	n.mu.Unlock()
	used, err := n.entriesUsed()
	return dataplane.Usage{Objects: objects, Sessions: used}, err
}

// Collect implements [dataplane.Plane]: versions of a switch begin at 1, so it keeps its tombstones.
func (n *Node) Collect() (map[uint16]dataplane.Tombstones, error) { return nil, dataplane.ErrNoFloors }
