package core

import "slices"

// Options configure a [Replica].
type Options struct {
	Disk    Disk // the own one
	Without Rule
}

// Stored is what a disk has, whether it was synced or not.
type Stored struct {
	Promised uint64   // the lowest era of which entries may still be stored
	Last     Position // of the state with all entries
}

// Replica is one life of a gateway: it follows the log of the era, and has its own disk and its own copy of the state.
// All methods but [Replica.Actions], [Replica.Counted] and [Replica.Status] are events.
type Replica struct {
	o       Options
	actions []Action
	record  Record

	// The own disk. promised is the lowest era of which entries may still be stored; it only rises. last is what the
	// disk has when all writes are synced, and durable what it has now. writes are those not synced yet, in the order
	// of seq, and the newest one has last. asks wait for their syncs, in the same order.
	promised uint64
	last     Position
	durable  Position
	seq      uint64 // of the last write
	writes   []write
	asks     []ask

	// The log. era is the active one of record. Once the replica has entered it, at.Next is the next entry to read. At
	// most one read of the log is on its way (reading), and only its answer counts (call).
	era     uint64
	entered bool // the replica has the state with which the era begins, and follows its log
	at      Cursor
	lost    bool // the chain has lost the log
	sealed  bool // the log ends before at.Next
	call    uint64
	reading bool
	read    Cursor // where the present read began
	again   bool   // a disk has reported an unread entry meanwhile
	polled  Cursor // at, when it was polled last
	written uint64 // the last entry of the era that the own gateway wrote
	writer  Disk   // of the gateway that hands over the entries of at.Term; zero: not known
	untold  bool   // more counts than the others were told

	// What counts. reported[i] is up to where record.Active.Set[i] has entries of era. Disks report to the writer at
	// once, and it tells the others what counts with its next entries, or in a moment if there are none. reported and
	// counted only rise within an era, applied always. counted may be greater than what was read: see Counted.
	reported []uint64
	counted  uint64
	applied  uint64

	// The reads without an answer. Each is in one of the three.
	fresh   []uint64 // the next read of the log serves them
	looking []uint64 // the present one does
	waiting []waiting
}

// write is a write to the own disk.
type write struct {
	seq  uint64
	last Position // what the disk has with it
}

// ask is an [Answer] that waits for a sync.
type ask struct{ call, seq uint64 }

// waiting is a read that waits until an entry is applied.
type waiting struct{ id, index uint64 }

// New makes the replica of a life that begins with a disk. Nothing of its content counts as synced before
// [Replica.Synced].
func New(o Options, s Stored) *Replica {
	return &Replica{o: o, promised: s.Promised, last: s.Last, writes: []write{{0, s.Last}}}
}

func (m *Replica) emit(a Action) { m.actions = append(m.actions, a) }

// Actions returns what the caller has to do, in this order, and forgets it.
func (m *Replica) Actions() []Action {
	a := m.actions
	m.actions = nil
	return a
}

// Recorded takes the record of the keyspace, or an earlier one.
func (m *Replica) Recorded(r Record) {
	old := &m.record
	if r.Active.Number < old.Active.Number || r.Active.Number == old.Active.Number && r.Newest() < old.Newest() {
		return
	}
	m.record = r
	if r.Active.Number != m.era {
		m.era, m.entered, m.lost, m.sealed, m.reading, m.written = r.Active.Number, false, false, false, false, 0
		m.writer = Disk{}
		m.reported, m.counted = make([]uint64, len(r.Active.Set)), r.Active.Base.Index
		for _, w := range m.waiting {
			m.fresh = append(m.fresh, w.id)
		}
		m.fresh, m.waiting, m.looking = append(m.fresh, m.looking...), nil, nil
		m.enter()
	}
}

// enter begins to follow the era, if the own disk has the state with which it begins or can get it.
func (m *Replica) enter() {
	base, cut := m.record.Active.Base, m.record.Active.Cut
	switch {
	case m.last.Era == m.era:
	case m.last.Era > m.era || m.promised > m.era:
		return // another recovery is under way
	case m.last.Era == base.Era && (m.last.Index > base.Index && !cut || m.last.Index == base.Index):
		// Entries of one era's log are the same everywhere.
		m.last = Position{Era: m.era, Index: base.Index}
		m.emit(Mark{m.store(), m.last})
	default:
		m.emit(Fetch{m.era, base.Index})
		return
	}
	m.begin()
}

// begin follows the era behind what the own disk has.
func (m *Replica) begin() {
	m.entered, m.reading = true, false
	m.at = Cursor{Next: m.last.Index + 1, Term: m.last.Term}
	m.emit(Enter{m.era})
	m.report()
	m.count()
	m.look()
}

// Fetched answers [Fetch] with the position of the state that came: entries of the era that count, with all before them.
func (m *Replica) Fetched(p Position) {
	if p.Era != m.era || p.Index < m.record.Active.Base.Index || m.promised > m.era || m.last.Era > m.era ||
		m.entered && p.Index < m.at.Next {
		return
	}
	m.last, m.counted = p, max(m.counted, p.Index)
	m.emit(Store{m.store(), p})
	m.begin()
}

// Poll lets the replica look for what it has missed. While entries come, it misses none.
func (m *Replica) Poll() {
	if m.era != 0 && !m.entered {
		m.enter()
		return
	}
	if m.polled == m.at {
		m.look()
	}
	m.polled = m.at
}

// Look lets the replica look for what the caller knows to be in the log.
func (m *Replica) Look() {
	m.again = true
	m.look()
}

// Repeat lets the replica tell all others what it has told the writer, or what was lost.
func (m *Replica) Repeat() {
	if r, ok := m.state(); ok {
		m.untold = false
		m.emit(r)
	}
}

// Remind lets the writer tell the others what counts, if no entries have told it.
func (m *Replica) Remind() {
	if m.untold {
		m.Repeat()
	}
}

// Tell returns what a writer of an era tells the others with the entries that it hands over: up to where they count.
func (m *Replica) Tell(era uint64) (counted uint64) {
	if era != m.era {
		return 0
	}
	m.untold = false
	return m.Counted()
}

// look reads the log on, if it is not being read.
func (m *Replica) look() {
	if !m.entered || m.reading {
		return
	}
	m.call, m.reading, m.read, m.again = m.call+1, true, m.at, false
	m.looking, m.fresh = append(m.looking, m.fresh...), nil
	m.emit(ReadLog{m.call, m.era, m.at.Next})
}

// Log answers [ReadLog] with cells in the order of the log; none if the chain did not answer.
func (m *Replica) Log(call uint64, cells []Cell) {
	if call != m.call || !m.reading {
		return
	}
	m.reading = false
	at, verdict := m.read, Entry
	for _, cell := range cells {
		if verdict = at.Take(cell); verdict != Entry {
			break
		}
	}
	if at.Next > m.at.Next {
		if at.Term > m.at.Term {
			m.writer = Disk{}
		}
		m.take(at)
	} else if at.Next < m.at.Next && verdict != End {
		verdict = Entry // what was pushed meanwhile says more
	}
	switch verdict {
	case Entry:
		if len(cells) > 0 {
			m.look()
		}
		return
	case Behind:
		m.emit(Fetch{m.era, m.at.Next})
	case Lost:
		m.lost = true
	case Sealed:
		m.sealed = true
	case End:
		for _, id := range m.looking {
			m.waiting = append(m.waiting, waiting{id, at.Next - 1})
		}
		m.looking = nil
		m.release()
		if len(m.fresh) > 0 || m.again {
			m.look()
		}
	}
}

// Written says that the own gateway's writer of a term has written entries of an era, and the chain has committed them
// and all before. The caller hands them to all gateways: see [Replica.Pushed].
func (m *Replica) Written(era, term, from, to uint64) {
	if era == m.era {
		m.written = max(m.written, to)
	}
	m.Pushed(m.o.Disk, era, term, from, to)
}

// Pushed takes entries that the writer with a disk has handed over. They may come late, or twice. Entries that follow the
// last one that was read count as read.
func (m *Replica) Pushed(writer Disk, era, term, from, to uint64) {
	if era != m.era || !m.entered || term < m.at.Term {
		return
	}
	m.writer = writer
	switch {
	case to < m.at.Next:
	case from > m.at.Next: // what is between was lost on the way
		m.again = true
		m.look()
	default:
		m.take(Cursor{Next: to + 1, Term: term})
	}
}

// take stores the entries before a place, which were read, unless the own disk has promised not to.
func (m *Replica) take(at Cursor) {
	from, to := m.at.Next, at.Next-1
	m.at = at
	if m.promised <= m.era && m.last.Era == m.era {
		m.last = Position{Era: m.era, Index: to, Term: m.at.Term}
		m.emit(Append{m.store(), m.era, from, to})
		if !m.o.Without.on(Sync) {
			m.report()
		}
	}
	m.count()
}

// store counts a write to the own disk. last is what the disk has with it.
func (m *Replica) store() (seq uint64) {
	m.seq++
	m.writes = append(m.writes, write{m.seq, m.last})
	return m.seq
}

// Synced says that the own disk has synced all writes up to a number. 0: what it had when this life began.
func (m *Replica) Synced(seq uint64) {
	n := 0
	for ; n < len(m.writes) && m.writes[n].seq <= seq; n++ {
		m.durable = m.writes[n].last
	}
	m.writes = m.writes[n:]
	m.report()
	m.answer()
}

// report tells the writer, or all others if it is not known, what the own disk has.
func (m *Replica) report() {
	r, ok := m.state()
	if !ok {
		return
	}
	if r.To = m.writer; r.To != m.o.Disk {
		m.emit(r)
	}
	m.Reported(m.o.Disk, r)
}

// state is what all others may know of this replica, if its disk has something of the era.
func (m *Replica) state() (Report, bool) {
	has := m.durable
	if !m.o.Without.on(Sync) {
		has = m.last
	}
	return Report{Era: m.era, Index: has.Index, Log: m.written, Counted: m.Counted()}, m.entered && has.Era == m.era
}

// Reported takes the [Report] of a disk, late or repeated. The log has what a disk of the era has. What it says about the
// log is only a reason to look there. What counts at one gateway does at all.
func (m *Replica) Reported(d Disk, r Report) {
	if r.Era != m.era {
		return
	}
	if i := m.o.Without.at(m.record.Active.Set, d); i >= 0 {
		m.reported[i] = max(m.reported[i], r.Index)
	}
	m.counted = max(m.counted, r.Counted)
	m.count()
	if m.entered && max(r.Index, r.Log) >= m.at.Next {
		m.again = true
		m.look()
	}
}

// count applies the entries that count.
func (m *Replica) count() {
	if !m.entered {
		return
	}
	if set := m.record.Active.Set; len(set) == 0 {
		m.counted = m.at.Next - 1
	} else {
		need := majority(set)
		if !m.o.Without.on(Commit) {
			need = 1
		}
		sorted := slices.Sorted(slices.Values(m.reported))
		m.counted = max(m.counted, sorted[len(sorted)-need])
	}
	to := m.Counted()
	if !m.o.Without.on(Apply) {
		to = m.at.Next - 1
	}
	if to > m.applied {
		m.applied = to
		if m.writer == m.o.Disk {
			m.untold = true
			m.emit(Remind{})
		}
		m.emit(Advance{to})
	}
	m.release()
}

// Counted returns the last entry of the era that this replica knows and that counts. A write of the era is
// acknowledged when its entry counts.
func (m *Replica) Counted() uint64 {
	if !m.entered {
		return 0
	}
	return min(m.counted, m.at.Next-1)
}

// Read asks to answer a linearizable read. [Ready] names id once, or never if the chain does not answer.
func (m *Replica) Read(id uint64) {
	if m.entered && !m.o.Without.on(ReadEnd) {
		m.emit(Ready{[]uint64{id}})
		return
	}
	m.fresh = append(m.fresh, id)
	m.look()
}

// release answers the reads whose entry is applied.
func (m *Replica) release() {
	var ready []uint64
	m.waiting = slices.DeleteFunc(m.waiting, func(w waiting) bool {
		if w.index > m.applied {
			return false
		}
		ready = append(ready, w.id)
		return true
	})
	if len(ready) > 0 {
		m.emit(Ready{ready})
	}
}

// Status is what the caller needs to know of a replica.
type Status struct {
	Record  Record
	Entered bool // it follows the log of the active era
	At      Cursor
	Applied uint64
	// Broken: the log of the active era is lost or sealed, so nothing is read or written before the next recovery.
	Broken bool
}

// Status returns the state.
func (m *Replica) Status() Status {
	return Status{m.record, m.entered, m.at, m.applied, m.lost || m.sealed}
}
