package p4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// batch is how many places or slots are read at a time, so that frames are never held up for long.
const batch = 256

// cell is the contents of the registers of one place.
type cell struct {
	version, committed uint64
	bytes, epoch       uint64
	words              [valueWords]uint64
	four, two, one     uint64 // fields without a word of their own
	reads, writes      uint64
}

func (c *cell) object() chain.Object {
	o := chain.Object{
		Version: c.version, Committed: c.committed, Epoch: uint32(c.epoch), Tombstone: c.bytes&tombstoneBit != 0,
		Reads: c.reads, Writes: c.writes,
	}
	length := c.bytes & lengthBits
	for i := range length / 8 {
		o.Value = binary.BigEndian.AppendUint64(o.Value, c.words[i])
	}
	if length&4 != 0 {
		o.Value = binary.BigEndian.AppendUint32(o.Value, uint32(c.four))
	}
	if length&2 != 0 {
		o.Value = binary.BigEndian.AppendUint16(o.Value, uint16(c.two))
	}
	if length&1 != 0 {
		o.Value = append(o.Value, byte(c.one))
	}
	return o
}

func cellOf(o *chain.Object) cell {
	c := cell{
		version: o.Version, committed: o.Committed, bytes: uint64(len(o.Value)), epoch: uint64(o.Epoch),
		reads: o.Reads, writes: o.Writes,
	}
	if o.Tombstone {
		c.bytes |= tombstoneBit
	}
	b := o.Value
	for i := 0; len(b) >= 8; i++ {
		c.words[i] = binary.BigEndian.Uint64(b)
		b = b[8:]
	}
	if len(b) >= 4 {
		c.four = uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		c.two = uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		c.one = uint64(b[0])
	}
	return c
}

// fields are the registers of a cell, in the order of objectArrays.
func (c *cell) fields() []*uint64 {
	f := []*uint64{&c.version, &c.committed, &c.bytes, &c.epoch}
	for i := range c.words {
		f = append(f, &c.words[i])
	}
	return append(f, &c.four, &c.two, &c.one, &c.reads, &c.writes)
}

// readCells adds the reading of some places in a row to r.
func readCells(r *Request, first int, cells []cell) {
	for i, array := range objectArrays {
		r.reads = append(r.reads, &read{line: len(r.lines), first: first, into: func(at int, v uint64) {
			*cells[at-first].fields()[i] = v
		}})
		r.add(fmt.Sprintf("read %s %d %d", array, first, len(cells)))
	}
}

func writeCell(r *Request, place uint32, c *cell) {
	for i, field := range c.fields() {
		r.Write(objectArrays[i], int(place), *field)
	}
}

// Object is [dataplane.Plane].Object.
func (n *Node) Object(k wire.Key) (chain.Object, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, ok := n.place(k)
	if !ok {
		return chain.Object{}, false, nil
	}
	var r Request
	var c [1]cell
	readCells(&r, int(place), c[:])
	err := n.sw.Do(&r)
	return c[0].object(), err == nil, err
}

// walk visits the objects that have a place when it gets there, a batch at a time; visit may change n. It ends when visit says so.
func (n *Node) walk(visit func(wire.Key, uint32, *cell) (bool, error)) error {
	for first := 0; ; first += batch {
		n.mu.Lock()
		more, err := n.walkBatch(first, visit)
		n.mu.Unlock()
		if err != nil || !more {
			return err
		}
	}
}

func (n *Node) walkBatch(first int, visit func(wire.Key, uint32, *cell) (bool, error)) (more bool, err error) {
	if first >= len(n.keys) {
		return false, nil
	}
	cells := make([]cell, min(batch, len(n.keys)-first))
	var r Request
	readCells(&r, first, cells)
	if err := n.sw.Do(&r); err != nil {
		return false, err
	}
	for i := range cells {
		if !n.used[first+i] {
			continue
		}
		if more, err := visit(n.keys[first+i], uint32(first+i), &cells[i]); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// Dirty is [dataplane.Plane].Dirty.
func (n *Node) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	var dirty []dataplane.KeyedObject
	err := n.walk(func(k wire.Key, _ uint32, c *cell) (bool, error) {
		config := n.configs[k.Shard(n.options.Shards)]
		if c.version != c.committed && (config.State != chain.Active || !config.Tail()) {
			dirty = append(dirty, dataplane.KeyedObject{Key: k, Object: c.object()})
		}
		return len(dirty) < limit, nil
	})
	return dirty, err
}

// lane is what the registers of one lane hold; at is its place in the arrays of all lanes.
type lane struct {
	at  int
	key chain.SessionKey
	chain.Session
}

// lanes reads the lanes of some slots.
func (n *Node) lanes(slot, count int) ([]lane, error) {
	found := make([][laneWays]lane, count)
	var r Request
	for way := range laneWays {
		base := way*laneSlots + slot
		each := func(array string, first int, set func(*lane, uint64)) {
			r.Scan(array, first, count, func(i int, v uint64) { set(&found[i-first][way], v) })
		}
		each(fmt.Sprintf("%s%d", regLaneSession, way), slot, func(l *lane, v uint64) { l.key.Session = v })
		each(fmt.Sprintf("%s%d", regLaneShard, way), slot, func(l *lane, v uint64) { l.key.Shard = uint16(v) })
		each(regLaneSeq, base, func(l *lane, v uint64) { l.Seq = v })
		each(regLaneVersion, base, func(l *lane, v uint64) { l.Version = v })
		each(regLaneResult, base, func(l *lane, v uint64) { l.Result = v })
		each(regLaneKey, base, func(l *lane, v uint64) { l.KeyLo = v })
		each(regLaneOp, base, func(l *lane, v uint64) { l.Op = wire.Op(v) })
		each(regLaneStatus, base, func(l *lane, v uint64) { l.Status = wire.Status(v) })
	}
	if err := n.sw.Do(&r); err != nil {
		return nil, err
	}
	var all []lane
	for i := range found {
		for way := range laneWays {
			if l := found[i][way]; l.key.Session != 0 {
				l.at = way*laneSlots + slot + i
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// slotOf is where the program looks for a lane.
func (n *Node) slotOf(k chain.SessionKey) int {
	h := k.Session + uint64(k.Shard)<<40
	h += h << 21
	h ^= h >> 35
	h += h << 4
	h ^= h >> 15
	return int(h & uint64(n.slots()-1))
}

// slots is how many slots are in use: room for more lanes than there may be, so that few collide.
func (n *Node) slots() int {
	slots := fewSlots
	for slots*laneWays < 4*n.options.MaxSessions && slots < laneSlots {
		slots *= 2
	}
	return slots
}

// visitLanes visits all lanes, some slots at a time.
func (n *Node) visitLanes(visit func(*lane) (bool, error)) error {
	for slot := 0; slot < n.slots(); slot += batch {
		n.mu.Lock()
		all, err := n.lanes(slot, min(batch, n.slots()-slot))
		n.mu.Unlock()
		if err != nil {
			return err
		}
		for i := range all {
			if more, err := visit(&all[i]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// Sessions is [dataplane.Plane].Sessions.
func (n *Node) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	return n.visitLanes(func(l *lane) (bool, error) { return visit(l.key, l.Session), nil })
}

func (n *Node) find(k chain.SessionKey) (*lane, []lane, error) {
	all, err := n.lanes(n.slotOf(k), 1)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if all[i].key == k {
			return &all[i], all, nil
		}
	}
	return nil, all, nil
}

// DropSession is [dataplane.Plane].DropSession.
func (n *Node) DropSession(k chain.SessionKey, seq uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dropLane(k, func(s *chain.Session) bool { return s.Seq == seq })
}

// dropLane frees a lane if it still is as it has to be. A frame may use the lane between the look and the change: that is
// refused by comparing the lane once more, with no frame in between.
func (n *Node) dropLane(k chain.SessionKey, still func(*chain.Session) bool) error {
	return n.together(func() error {
		l, _, err := n.find(k)
		if err != nil || l == nil || !still(&l.Session) {
			return err
		}
		var r Request
		var used [1]uint64
		r.Read(regLanesUsed, 0, used[:])
		if err := n.sw.Do(&r); err != nil {
			return err
		}
		r = Request{}
		r.Write(fmt.Sprintf("%s%d", regLaneSession, l.at/laneSlots), l.at%laneSlots, 0)
		r.Write(fmt.Sprintf("%s%d", regLaneShard, l.at/laneSlots), l.at%laneSlots, 0)
		r.Write(regLanesUsed, 0, used[0]-1)
		return n.sw.Do(&r)
	})
}

// together runs f while the switch takes no frames.
func (n *Node) together(f func() error) error {
	if err := n.sw.Hold(true); err != nil {
		return err
	}
	return errors.Join(f(), n.sw.Hold(false))
}

// putLane stores a lane, which may be there already. It returns false if there is no room. The caller holds the switch.
func (n *Node) putLane(k chain.SessionKey, s *chain.Session, newer bool) (bool, error) {
	l, others, err := n.find(k)
	if err != nil {
		return false, err
	}
	var r Request
	at := 0
	if l != nil {
		if newer && s.Seq <= l.Seq {
			return true, nil
		}
		at = l.at
	} else {
		var used [1]uint64
		r.Read(regLanesUsed, 0, used[:])
		if err := n.sw.Do(&r); err != nil {
			return false, err
		}
		slot := n.slotOf(k)
		way := 0
		for way < laneWays && slices.ContainsFunc(others, func(o lane) bool { return o.at/laneSlots == way }) {
			way++
		}
		if way == laneWays || used[0] >= uint64(n.options.MaxSessions) {
			return false, nil
		}
		at = way*laneSlots + slot
		r = Request{}
		r.Write(fmt.Sprintf("%s%d", regLaneSession, way), slot, k.Session)
		r.Write(fmt.Sprintf("%s%d", regLaneShard, way), slot, uint64(k.Shard))
		r.Write(regLanesUsed, 0, used[0]+1)
	}
	r.Write(regLaneSeq, at, s.Seq)
	r.Write(regLaneVersion, at, s.Version)
	r.Write(regLaneResult, at, s.Result)
	r.Write(regLaneKey, at, s.KeyLo)
	r.Write(regLaneOp, at, uint64(s.Op))
	r.Write(regLaneStatus, at, uint64(s.Status))
	return true, n.sw.Do(&r)
}
