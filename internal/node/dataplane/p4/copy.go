package p4

import (
	"fmt"
	"slices"

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
	err := n.walk(objectArrays, func(k wire.Key, _ uint32, c *cell) (bool, error) {
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
	of := func(shard uint16) bool { _, wanted := w.Since[shard]; return wanted }
	return n.visitEntries(of, func(l *sessionEntry) (bool, error) { return true, session(l.key, l.Session) })
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
	if n.stepper != nil {
		return n.mergeAll(objects, sessions)
	}
	return n.together(func() error {
		for some := range slices.Chunk(objects, batch) {
			if err := n.merge(some); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(sessions, batch) {
			if done, err := n.putEntries(some, true); err != nil {
				return err
			} else if done < len(some) {
				return fmt.Errorf("sessions: %w", dataplane.ErrFull)
			}
		}
		return nil
	})
}

// merge takes over another node's copies of objects: all of them, or those before the first that has no place. The
// caller holds the switch.
func (n *Node) merge(objects []dataplane.KeyedObject) error {
	places, full, err := n.placesFor(objects)
	if err != nil {
		return err
	}
	have, err := n.cellsAt(places)
	if err != nil {
		return err
	}
	now := make(map[uint32]cell, len(places))
	for i, place := range places {
		c, again := now[place]
		if !again {
			c = have[i]
		}
		c.merge(&objects[i].Object)
		now[place] = c
	}
	var r Request
	for i, place := range places {
		if c, ok := now[place]; ok && c != have[i] {
			writeCell(&r, place, &c)
		}
		delete(now, place)
	}
	if err := n.do(&r); err != nil || !full {
		return err
	}
	return fmt.Errorf("objects: %w", dataplane.ErrFull)
}

// placesFor finds a place for each object, or makes one, until there is none left: full.
func (n *Node) placesFor(objects []dataplane.KeyedObject) (places []uint32, full bool, err error) {
	var r Request
	var given []wire.Key
	for _, o := range objects {
		place, ok := n.place(o.Key)
		if !ok {
			if place, ok = n.give(&r, o.Key); !ok {
				n.setFull(&r, true)
				full = true
				break
			}
			given = append(given, o.Key)
		}
		places = append(places, place)
	}
	if err = n.do(&r); err != nil {
		for _, k := range given {
			n.forgetPlace(k)
		}
	}
	return places, full, err
}

// cellsAt reads some places.
func (n *Node) cellsAt(places []uint32) ([]cell, error) {
	cells := make([]cell, len(places))
	var r Request
	for i, place := range places {
		n.readCells(&r, int(place), cells[i:i+1], objectArrays)
	}
	return cells, n.do(&r)
}

// merge takes over what is newer in another node's copy.
func (c *cell) merge(o *chain.Object) {
	if o.Version > c.version {
		newer := cellOf(o)
		newer.committed, newer.epoch, newer.reads, newer.writes = c.committed, 0, c.reads, c.writes
		*c = newer
	}
	if o.Committed > c.committed {
		if c.committed = o.Committed; c.version == c.committed {
			c.epoch = uint64(o.Epoch)
		}
	}
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
// not nil, with each of them. change gets the first registers of a cell.
func (n *Node) forget(
	shards []uint16, arrays []string, change func(r *Request, k wire.Key, place uint32, c *cell),
	gone func(chain.SessionKey, chain.Session),
) error {
	var set map[uint16]bool
	for first, more := 0, true; more; first += batch {
		var err error
		if set, more, err = n.forgetBatch(shards, first, arrays, change); err != nil {
			return err
		}
	}
	var sessions []chain.SessionKey
	err := n.visitEntries(func(shard uint16) bool { return set[shard] }, func(l *sessionEntry) (bool, error) {
		sessions = append(sessions, l.key)
		return true, nil
	})
	for some := range slices.Chunk(sessions, batch) {
		if err != nil {
			break
		}
		n.mu.Lock()
		err = n.dropEntries(some, func(k chain.SessionKey, s *chain.Session) bool {
			if gone != nil {
				gone(k, *s)
			}
			return true
		})
		n.mu.Unlock()
	}
	return err
}

// forgetBatch changes the objects of a batch at once. No shard begins to be served meanwhile.
func (n *Node) forgetBatch(
	shards []uint16, first int, arrays []string, change func(r *Request, k wire.Key, place uint32, c *cell),
) (set map[uint16]bool, more bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if set, err = n.unserved(shards); err != nil {
		return nil, false, err
	}
	var r Request
	more, err = n.walkBatch(first, arrays, func(k wire.Key, place uint32, c *cell) (bool, error) {
		if set[k.Shard(n.options.Shards)] {
			change(&r, k, place, c)
		}
		return true, nil
	})
	if err != nil {
		return nil, false, err
	}
	return set, more, n.do(&r)
}

// Doubt is [dataplane.Plane].Doubt.
func (n *Node) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	err := n.forget(shards, versionArrays, func(r *Request, _ wire.Key, place uint32, c *cell) {
		if c.version != c.committed {
			n.zero(r, place)
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
	err := n.walk(versionArrays, func(k wire.Key, _ uint32, c *cell) (bool, error) {
		if (c.version == 0 || c.version != c.committed) && set[k.Shard(n.options.Shards)] {
			keys = append(keys, k)
		}
		return true, nil
	})
	return keys, err
}

// Drop is [dataplane.Plane].Drop.
func (n *Node) Drop(shards []uint16) error {
	return n.forget(shards, nil, func(r *Request, k wire.Key, _ uint32, _ *cell) { n.take(r, k) }, nil)
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
