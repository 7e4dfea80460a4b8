package p4

import (
	"errors"
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

// readCells adds the reading of some places in a row to r, of the first registers of a cell.
func (n *Node) readCells(r *Request, first int, cells []cell, arrays []string) {
	skip := 0
	if n.stepper != nil && len(arrays) > 0 {
		n.readPlaces(r, first, cells)
		skip = min(len(arrays), len(objectArrays)-len(countArrays))
	}
	for i, array := range arrays {
		if i < skip {
			continue
		}
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
	n.readCells(&r, int(place), c[:], objectArrays)
	err := n.do(&r)
	return c[0].object(), err == nil, err
}

// walk visits the objects that have a place when it gets there, a batch at a time, with the first registers of their cells.
// It ends when visit says so.
func (n *Node) walk(arrays []string, visit func(wire.Key, uint32, *cell) (bool, error)) error {
	for first := 0; ; first += batch {
		n.mu.Lock()
		more, err := n.walkBatch(first, arrays, visit)
		n.mu.Unlock()
		if err != nil || !more {
			return err
		}
	}
}

// walkBatch visits the objects of a batch; visit may change n.
func (n *Node) walkBatch(first int, arrays []string, visit func(wire.Key, uint32, *cell) (bool, error)) (more bool, err error) {
	if first >= len(n.keys) {
		return false, nil
	}
	cells := make([]cell, min(batch, len(n.keys)-first))
	var r Request
	n.readCells(&r, first, cells, arrays)
	if err := n.do(&r); err != nil {
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
	err := n.walk(objectArrays, func(k wire.Key, _ uint32, c *cell) (bool, error) {
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

// entryAt is the index of a way of a slot in the arrays of all entries.
func entryAt(way, slot int) int { return way*sessionSlots + slot }

// entries reads some session entries, as indices in the arrays of all entries. Those that are free are left out.
func (n *Node) entries(at []int) ([]sessionEntry, error) {
	found := make([]sessionEntry, len(at))
	var r Request
	for i, at := range at {
		way, slot, l := at/sessionSlots, at%sessionSlots, &found[i]
		l.at = at
		r.Visit(sessionIDs[way], slot, 1, func(_ int, v uint64) { l.key.Session = v })
		r.Visit(sessionShards[way], slot, 1, func(_ int, v uint64) { l.key.Shard = uint16(v) })
		r.Visit(regSessionSeq, at, 1, func(_ int, v uint64) { l.Seq = v })
		r.Visit(regSessionVersion, at, 1, func(_ int, v uint64) { l.Version = v })
		r.Visit(regSessionResult, at, 1, func(_ int, v uint64) { l.Result = v })
		r.Visit(regSessionKey, at, 1, func(_ int, v uint64) { l.KeyLo = v })
		r.Visit(regSessionOp, at, 1, func(_ int, v uint64) { l.Op = wire.Op(v) })
		r.Visit(regSessionStatus, at, 1, func(_ int, v uint64) { l.Status = wire.Status(v) })
	}
	err := n.do(&r)
	return slices.DeleteFunc(found, func(l sessionEntry) bool { return l.key.Session == 0 }), err
}

// inSlots reads the session entries of some slots.
func (n *Node) inSlots(slots []int) ([]sessionEntry, error) {
	at := make([]int, 0, sessionWays*len(slots))
	for _, slot := range slots {
		for way := range sessionWays {
			at = append(at, entryAt(way, slot))
		}
	}
	return n.entries(at)
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

// slotsOf are the slots of sessions, each of them once.
func (n *Node) slotsOf(keys []chain.SessionKey) []int {
	slots := make([]int, len(keys))
	for i, k := range keys {
		slots[i] = n.slotOf(k)
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// slots is the number of slots in use. They have room for more entries than are allowed, so that few sessions collide.
func (n *Node) slots() int {
	slots := fewSlots
	for slots*sessionWays < 4*n.options.MaxSessions && slots < sessionSlots {
		slots *= 2
	}
	return slots
}

// usedEntries lists the session entries in use of slots in a row.
func (n *Node) usedEntries(first, count int) ([]int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var at []int
	var r Request
	for way, array := range sessionIDs {
		r.Scan(array, first, count, func(slot int, _ uint64) { at = append(at, entryAt(way, slot)) })
	}
	err := n.do(&r)
	return at, err
}

// entriesUsed is the number of session entries.
func (n *Node) entriesUsed() (int, error) {
	var r Request
	var used [1]uint64
	if n.stepper == nil {
		r.Read(regSessionEntriesUsed, 0, used[:])
	} else {
		r.ask(newStep(stepMade, nil), func(a step) { used[0] = uint64(a.get32(offBaseEpoch)) })
	}
	err := n.do(&r)
	return int(used[0]), err
}

func everyShard(uint16) bool { return true }

// visitEntries visits all session entries of some shards that are there during all of the call, some slots at a time.
// It looks which entries are in use first, because few may be.
func (n *Node) visitEntries(of func(shard uint16) bool, visit func(*sessionEntry) (bool, error)) error {
	const looked = 8 * batch
	if used, err := n.entriesUsed(); err != nil || used == 0 {
		return err
	}
	if n.stepper != nil {
		return n.visitMade(of, visit)
	}
	for first := 0; first < n.slots(); first += looked {
		used, err := n.usedEntries(first, min(looked, n.slots()-first))
		if err != nil {
			return err
		}
		for some := range slices.Chunk(used, batch) {
			if more, err := n.visitSome(some, of, visit); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// visitSome visits some entries.
func (n *Node) visitSome(
	at []int, of func(shard uint16) bool, visit func(*sessionEntry) (bool, error),
) (more bool, err error) {
	n.mu.Lock()
	found, err := n.entries(at)
	n.mu.Unlock()
	if err != nil {
		return false, err
	}
	for i := range found {
		if !of(found[i].key.Shard) {
			continue
		}
		if more, err := visit(&found[i]); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// Sessions is [dataplane.Plane].Sessions.
func (n *Node) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	return n.visitEntries(everyShard, func(l *sessionEntry) (bool, error) { return visit(l.key, l.Session), nil })
}

// DropSession is [dataplane.Plane].DropSession.
func (n *Node) DropSession(k chain.SessionKey, seq uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dropEntries([]chain.SessionKey{k}, func(_ chain.SessionKey, s *chain.Session) bool { return s.Seq == seq })
}

// dropEntries frees the session entries that still holds for. A frame may change an entry before this call, so entries
// are read and compared again while the switch takes no frames.
func (n *Node) dropEntries(keys []chain.SessionKey, still func(chain.SessionKey, *chain.Session) bool) error {
	if n.stepper != nil {
		return n.freeAll(keys, still)
	}
	return n.together(func() error {
		all, err := n.inSlots(n.slotsOf(keys))
		if err != nil {
			return err
		}
		used, err := n.entriesUsed()
		if err != nil {
			return err
		}
		var r Request
		for i := range all {
			if l := &all[i]; slices.Contains(keys, l.key) && still(l.key, &l.Session) {
				freeEntry(&r, l.at)
				used--
			}
		}
		r.Write(regSessionEntriesUsed, 0, uint64(used))
		return n.do(&r)
	})
}

// freeEntry frees a session entry, but does not count it.
func freeEntry(r *Request, at int) {
	r.Write(sessionIDs[at/sessionSlots], at%sessionSlots, 0)
	r.Write(sessionShards[at/sessionSlots], at%sessionSlots, 0)
}

// together runs f while the switch takes no frames.
func (n *Node) together(f func() error) error {
	if err := n.sw.Pause(true); err != nil {
		return err
	}
	return errors.Join(f(), n.sw.Pause(false))
}

// putEntries stores session entries, some of which may exist already, with newer only if that is. It returns how many
// there was room for. The caller holds the switch.
func (n *Node) putEntries(sessions []dataplane.KeyedSession, newer bool) (int, error) {
	keys := make([]chain.SessionKey, len(sessions))
	for i := range sessions {
		keys[i] = sessions[i].Key
	}
	there, err := n.inSlots(n.slotsOf(keys))
	if err != nil {
		return 0, err
	}
	used, err := n.entriesUsed()
	if err != nil {
		return 0, err
	}
	ways := make(map[int][]sessionEntry) // by slot
	for _, l := range there {
		slot := l.at % sessionSlots
		ways[slot] = append(ways[slot], l)
	}
	var r Request
	done := 0
	for _, s := range sessions {
		slot := n.slotOf(s.Key)
		l, is := wayOf(ways[slot], s.Key, slot)
		if !is {
			if l == nil || used >= n.options.MaxSessions {
				break
			}
			used++
			ways[slot] = append(ways[slot], *l)
			l = &ways[slot][len(ways[slot])-1]
		}
		if done++; is && newer && s.Session.Seq <= l.Seq {
			continue
		}
		l.Session = s.Session
		l.write(&r, !is)
	}
	r.Write(regSessionEntriesUsed, 0, uint64(used))
	return done, n.do(&r)
}

// wayOf finds the entry of a session among those of its slot, or else a free one; nil: there is none.
func wayOf(there []sessionEntry, k chain.SessionKey, slot int) (l *sessionEntry, is bool) {
	for i := range there {
		if there[i].key == k {
			return &there[i], true
		}
	}
	for way := range sessionWays {
		at := entryAt(way, slot)
		if !slices.ContainsFunc(there, func(o sessionEntry) bool { return o.at == at }) {
			return &sessionEntry{at: at, key: k}, false
		}
	}
	return nil, false
}

// write adds the writing of the entry to r.
func (l *sessionEntry) write(r *Request, isNew bool) {
	if isNew {
		r.Write(sessionIDs[l.at/sessionSlots], l.at%sessionSlots, l.key.Session)
		r.Write(sessionShards[l.at/sessionSlots], l.at%sessionSlots, uint64(l.key.Shard))
	}
	r.Write(regSessionSeq, l.at, l.Seq)
	r.Write(regSessionVersion, l.at, l.Version)
	r.Write(regSessionResult, l.at, l.Result)
	r.Write(regSessionKey, l.at, l.KeyLo)
	r.Write(regSessionOp, l.at, uint64(l.Op))
	r.Write(regSessionStatus, l.at, uint64(l.Status))
}
