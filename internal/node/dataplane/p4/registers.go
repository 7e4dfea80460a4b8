package p4

import (
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
	value              Value
	reads, writes      uint64
}

func (c *cell) object() chain.Object {
	return chain.Object{
		Version: c.version, Committed: c.committed, Epoch: uint32(c.epoch), Tombstone: c.bytes&tombstoneBit != 0,
		Value: c.value.Join(int(c.bytes & lengthBits)), Reads: c.reads, Writes: c.writes,
	}
}

func cellOf(o *chain.Object) cell {
	c := cell{
		version: o.Version, committed: o.Committed, bytes: uint64(len(o.Value)), epoch: uint64(o.Epoch),
		value: Split(o.Value), reads: o.Reads, writes: o.Writes,
	}
	if o.Tombstone {
		c.bytes |= tombstoneBit
	}
	return c
}

// fields are the registers of a cell, in the order of objectArrays.
func (c *cell) fields() []*uint64 {
	f := []*uint64{&c.version, &c.committed, &c.bytes, &c.epoch}
	for i := range c.value {
		f = append(f, &c.value[i])
	}
	return append(f, &c.reads, &c.writes)
}

// readCells adds the reading of some places in a row to r.
func readCells(r *Request, first int, cells []cell) {
	for i, array := range objectArrays {
		r.Visit(array, first, len(cells), func(at int, v uint64) { *cells[at-first].fields()[i] = v })
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

// sessionEntry has the registers of one session entry; at is its index in the arrays of all entries.
type sessionEntry struct {
	at  int
	key chain.SessionKey
	chain.Session
}

// entries reads the session entries of some slots.
func (n *Node) entries(slot, count int) ([]sessionEntry, error) {
	found := make([][sessionWays]sessionEntry, count)
	var r Request
	for way := range sessionWays {
		base := way*sessionSlots + slot
		each := func(array string, first int, set func(*sessionEntry, uint64)) {
			r.Scan(array, first, count, func(i int, v uint64) { set(&found[i-first][way], v) })
		}
		each(fmt.Sprintf("%s%d", regSessionID, way), slot, func(l *sessionEntry, v uint64) { l.key.Session = v })
		each(fmt.Sprintf("%s%d", regSessionShard, way), slot, func(l *sessionEntry, v uint64) { l.key.Shard = uint16(v) })
		each(regSessionSeq, base, func(l *sessionEntry, v uint64) { l.Seq = v })
		each(regSessionVersion, base, func(l *sessionEntry, v uint64) { l.Version = v })
		each(regSessionResult, base, func(l *sessionEntry, v uint64) { l.Result = v })
		each(regSessionKey, base, func(l *sessionEntry, v uint64) { l.KeyLo = v })
		each(regSessionOp, base, func(l *sessionEntry, v uint64) { l.Op = wire.Op(v) })
		each(regSessionStatus, base, func(l *sessionEntry, v uint64) { l.Status = wire.Status(v) })
	}
	if err := n.sw.Do(&r); err != nil {
		return nil, err
	}
	var all []sessionEntry
	for i := range found {
		for way := range sessionWays {
			if l := found[i][way]; l.key.Session != 0 {
				l.at = way*sessionSlots + slot + i
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// slotOf is the slot in which the program looks for a session.
func (n *Node) slotOf(k chain.SessionKey) int {
	h := k.Session + uint64(k.Shard)<<40
	h += h << 21
	h ^= h >> 35
	h += h << 4
	h ^= h >> 15
	return int(h & uint64(n.slots()-1))
}

// slots is the number of slots in use. They have room for more entries than are allowed, so that few sessions collide.
func (n *Node) slots() int {
	slots := fewSlots
	for slots*sessionWays < 4*n.options.MaxSessions && slots < sessionSlots {
		slots *= 2
	}
	return slots
}

// usedSlots lists the slots from one on that have an entry, in order.
func (n *Node) usedSlots(first, count int) ([]int, error) {
	used := make([]bool, count)
	var r Request
	for way := range sessionWays {
		r.Scan(fmt.Sprintf("%s%d", regSessionID, way), first, count, func(slot int, _ uint64) { used[slot-first] = true })
	}
	n.mu.Lock()
	err := n.sw.Do(&r)
	n.mu.Unlock()
	var slots []int
	for i, is := range used {
		if is {
			slots = append(slots, first+i)
		}
	}
	return slots, err
}

// entriesUsed is the number of session entries.
func (n *Node) entriesUsed() (int, error) {
	var r Request
	var used [1]uint64
	r.Read(regSessionEntriesUsed, 0, used[:])
	err := n.sw.Do(&r)
	return int(used[0]), err
}

// visitEntries visits all session entries that are there during all of the call, some slots at a time. It reads which
// slots have an entry first, because few may.
func (n *Node) visitEntries(visit func(*sessionEntry) (bool, error)) error {
	const looked = 8 * batch
	if used, err := n.entriesUsed(); err != nil || used == 0 {
		return err
	}
	for first := 0; first < n.slots(); first += looked {
		used, err := n.usedSlots(first, min(looked, n.slots()-first))
		if err != nil {
			return err
		}
		for len(used) > 0 {
			end := used[0] + batch
			together := slices.IndexFunc(used, func(slot int) bool { return slot >= end })
			if together < 0 {
				together = len(used)
			}
			more, err := n.visitSlots(used[0], used[together-1], visit)
			if err != nil || !more {
				return err
			}
			used = used[together:]
		}
	}
	return nil
}

// visitSlots visits the entries of some slots in a row.
func (n *Node) visitSlots(first, last int, visit func(*sessionEntry) (bool, error)) (more bool, err error) {
	n.mu.Lock()
	all, err := n.entries(first, last-first+1)
	n.mu.Unlock()
	for i := range all {
		if more, err := visit(&all[i]); err != nil || !more {
			return false, err
		}
	}
	return err == nil, err
}

// Sessions is [dataplane.Plane].Sessions.
func (n *Node) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	return n.visitEntries(func(l *sessionEntry) (bool, error) { return visit(l.key, l.Session), nil })
}

func (n *Node) find(k chain.SessionKey) (*sessionEntry, []sessionEntry, error) {
	all, err := n.entries(n.slotOf(k), 1)
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
	return n.dropEntry(k, func(s *chain.Session) bool { return s.Seq == seq })
}

// dropEntry frees a session entry if still holds for it. A frame may change the entry before this call, so the entry is
// read and compared again while the switch takes no frames.
func (n *Node) dropEntry(k chain.SessionKey, still func(*chain.Session) bool) error {
	return n.together(func() error {
		l, _, err := n.find(k)
		if err != nil || l == nil || !still(&l.Session) {
			return err
		}
		used, err := n.entriesUsed()
		if err != nil {
			return err
		}
		var r Request
		r.Write(fmt.Sprintf("%s%d", regSessionID, l.at/sessionSlots), l.at%sessionSlots, 0)
		r.Write(fmt.Sprintf("%s%d", regSessionShard, l.at/sessionSlots), l.at%sessionSlots, 0)
		r.Write(regSessionEntriesUsed, 0, uint64(used-1))
		return n.sw.Do(&r)
	})
}

// together runs f while the switch takes no frames.
func (n *Node) together(f func() error) error {
	if err := n.sw.Pause(true); err != nil {
		return err
	}
	return errors.Join(f(), n.sw.Pause(false))
}

// putEntry stores a session entry, which may exist already. It returns false if there is no room. The caller holds the switch.
func (n *Node) putEntry(k chain.SessionKey, s *chain.Session, newer bool) (bool, error) {
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
		used, err := n.entriesUsed()
		if err != nil {
			return false, err
		}
		slot := n.slotOf(k)
		way := 0
		for way < sessionWays && slices.ContainsFunc(others, func(o sessionEntry) bool { return o.at/sessionSlots == way }) {
			way++
		}
		if way == sessionWays || used >= n.options.MaxSessions {
			return false, nil
		}
		at = way*sessionSlots + slot
		r.Write(fmt.Sprintf("%s%d", regSessionID, way), slot, k.Session)
		r.Write(fmt.Sprintf("%s%d", regSessionShard, way), slot, uint64(k.Shard))
		r.Write(regSessionEntriesUsed, 0, uint64(used+1))
	}
	r.Write(regSessionSeq, at, s.Seq)
	r.Write(regSessionVersion, at, s.Version)
	r.Write(regSessionResult, at, s.Result)
	r.Write(regSessionKey, at, s.KeyLo)
	r.Write(regSessionOp, at, uint64(s.Op))
	r.Write(regSessionStatus, at, uint64(s.Status))
	return true, n.sw.Do(&r)
}
