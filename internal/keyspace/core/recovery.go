package core

import "slices"

// Recovery prepares the next era: after a loss of the chain, after a power failure, or for another set of disks. It
// lives in memory. A recovery that ends early is followed by one with the next number.
// All methods but [Recovery.Actions] and [Recovery.Done] are events.
type Recovery struct {
	without Rule
	actions []Action
	record  Record // as it was written last: era is prepared, and from the end on active
	era     uint64 // above each era that the record named when the recovery began
	stage   stage  // only rises

	// promised are disks of the last active set that store nothing more of earlier eras than this one. best is the
	// greatest of their positions, and from has it.
	promised []Disk
	best     Position
	from     Disk

	adopted   Position // of the content that was taken, at least best; its index is the base of the era
	at        Cursor   // of the last active era's log, behind adopted
	installed []Disk   // disks of the next set that have the base
}

// stage is what a recovery waits for.
type stage uint8

const (
	claiming   stage = iota // the record
	promising               // promises of a majority of the last active set
	taking                  // the content of a disk
	sealing                 // the seal of the last active era's log
	installing              // a majority of the next set has the state
	making                  // the log of the next era
	activating              // the record
	done
	failed
)

// Awaited is what a recovery waits for. One of the fields but Need is set. Need is a number of disks, and 0 without any.
type Awaited struct {
	Ended    bool   // nothing
	Record   bool   // the controllers store the record
	Promises []Disk // Need of these promise
	Content  Disk   // this disk's content comes
	Log      uint64 // the chain answers for the log of this era
	Installs []Disk // Need of these store the state
	Need     int
}

// Awaited returns what the recovery waits for.
func (m *Recovery) Awaited() Awaited {
	switch m.stage {
	case claiming, activating:
		return Awaited{Record: true}
	case promising:
		return Awaited{Promises: missing(m.record.asked(), m.promised), Need: m.record.promises() - len(m.promised)}
	case taking:
		return Awaited{Content: m.from}
	case sealing:
		return Awaited{Log: m.record.Active.Number}
	case installing:
		return Awaited{Installs: missing(m.record.Next, m.installed), Need: majority(m.record.Next) - len(m.installed)}
	case making:
		return Awaited{Log: m.era}
	default:
		return Awaited{Ended: true}
	}
}

// Recover begins a recovery by a record. next is the set of the next era.
func Recover(without Rule, r Record, next []Disk) *Recovery {
	m := &Recovery{without: without, era: r.Newest() + 1}
	m.record = Record{Active: r.Active, Recovering: m.era, Next: next, Lost: r.Lost}
	m.emit(WriteRecord{m.record})
	return m
}

// Begin has the first era begin with the state of an entry, not with nothing. The caller has its content.
func (m *Recovery) Begin(index uint64) { m.adopted = Position{Index: index} }

func (m *Recovery) emit(a Action) { m.actions = append(m.actions, a) }

// Actions returns what the caller has to do, in this order, and forgets it.
func (m *Recovery) Actions() []Action {
	a := m.actions
	m.actions = nil
	return a
}

// Done reports whether the recovery has ended, and whether its era is active.
func (m *Recovery) Done() (ended, active bool) { return m.stage >= done, m.stage == done }

// Fail ends a recovery.
func (m *Recovery) Fail() { m.stage = failed }

// Wrote answers [WriteRecord]. ok is false if the record was not replaced, or if that is not known.
func (m *Recovery) Wrote(ok bool) {
	switch {
	case !ok:
		m.Fail()
	case m.stage == claiming:
		m.stage = promising
		m.askOrAdopt()
	case m.stage == activating:
		m.stage = done
	}
}

// Progress is how far a recovery has come. It changes with each event that brings the recovery forward, and with no other.
type Progress struct {
	stage               stage
	promised, installed int
	read                uint64 // the entries of the last active era's log
}

// Progress returns how far the recovery has come.
func (m *Recovery) Progress() Progress {
	return Progress{m.stage, len(m.promised), len(m.installed), m.at.Next}
}

// missing are the disks of a set that are not among others.
func missing(set, others []Disk) []Disk {
	return slices.DeleteFunc(slices.Clone(set), func(d Disk) bool { return slices.Contains(others, d) })
}

// Retry repeats what may have been lost on the way to other gateways.
func (m *Recovery) Retry() {
	switch m.stage {
	case promising:
		m.emit(AskDisks{m.era, missing(m.record.asked(), m.promised)})
	case taking:
		m.emit(Take{m.from})
	case sealing:
		m.emit(ReadCell{m.record.Active.Number, m.at.Next})
	case installing:
		m.emit(InstallBase{m.base(), missing(m.record.Next, m.installed)})
	case making:
		m.emit(MakeLog{m.era, m.adopted.Index + 1})
	default:
	}
}

func (m *Recovery) askOrAdopt() {
	switch {
	case m.record.Active.Number == 0: // no disk has anything
		m.install()
	case len(m.record.Active.Set) == 0: // no disk has the state
		m.Fail()
	default:
		m.Retry()
	}
}

// Promised takes the [Answer] of a disk to [Replica.Ask].
func (m *Recovery) Promised(d Disk, a Answer) {
	set := m.record.asked()
	switch {
	case m.stage != promising:
		return
	case a.Promised > m.era:
		m.Fail()
		return
	case a.Promised > 0, m.without.at(set, d) < 0, m.without.at(m.promised, d) >= 0:
		return
	}
	if len(m.promised) == 0 || m.without.compare(a.Last, m.best) > 0 {
		m.best, m.from = a.Last, d
	}
	if m.promised = append(m.promised, d); len(m.promised) == m.record.promises() {
		m.stage = taking
		m.Retry()
	}
}

// Taken answers [Take] with the position of the content that came. The caller keeps the content if it is adopted, and
// forgets it otherwise: it may be late, or of a disk that was changed or emptied meanwhile.
func (m *Recovery) Taken(p Position) (adopted bool) {
	if m.stage != taking || m.without.compare(p, m.best) < 0 {
		return false
	}
	switch {
	case p.Era >= m.era:
		m.Fail() // a later recovery has changed the disk
		return false
	case len(m.record.Lost) > 0 && p.Era < m.record.Active.Number:
		m.Fail() // this disk has what was left out when the active era began
		return false
	}
	m.adopted = p
	if p.Era != m.record.Active.Number || !m.without.on(Seal) {
		m.install() // a recovery that installed its state had sealed the log before
		return true
	}
	m.stage = sealing
	m.at = Cursor{Next: p.Index + 1, Term: p.Term}
	m.Retry()
	return true
}

// Found answers [ReadCell].
func (m *Recovery) Found(index uint64, cell Cell) {
	if m.stage != sealing || index != m.at.Next {
		return
	}
	switch m.at.Take(cell) {
	case Entry: // it does not count: a majority promised to store no more of this era
		m.Retry()
	case End:
		m.emit(WriteSeal{m.record.Active.Number, m.at.Next, m.at.Term})
	case Sealed, Lost:
		m.install()
	case Behind:
		if cell.Seal { // of a recovery that ended early; the entries up to it do not count
			m.install()
			return
		}
		if len(m.record.Lost) == 0 {
			m.Fail() // the entries of the ring that are overwritten count, so a majority has them
			return
		}
		m.at = Cursor{Next: cell.Index, Term: cell.Term} // they are lost, and the log still needs its seal
		m.Retry()
	}
}

// SealWritten answers [WriteSeal]. ok is false if the cell had changed, or if that is not known.
func (m *Recovery) SealWritten(ok bool) {
	switch {
	case m.stage != sealing:
	case ok:
		m.install()
	default:
		m.Retry()
	}
}

// base is the position of the state with which the era begins, on the disks of its set.
func (m *Recovery) base() Position { return Position{Era: m.era, Index: m.adopted.Index} }

func (m *Recovery) install() {
	m.stage = installing
	m.Retry()
	if !m.without.on(Base) || len(m.record.Next) == 0 {
		m.make()
	}
}

// Installed takes the [Answer] of a disk to [Replica.Install].
func (m *Recovery) Installed(d Disk, a Answer) {
	switch {
	case m.stage != installing:
		return
	case a.Promised > m.era:
		m.Fail()
		return
	case a.Promised > 0, a.Last.Era != m.era, m.without.at(m.record.Next, d) < 0, m.without.at(m.installed, d) >= 0:
		return
	}
	if m.installed = append(m.installed, d); len(m.installed) == majority(m.record.Next) {
		m.make()
	}
}

func (m *Recovery) make() {
	m.stage = making
	m.Retry()
}

// LogMade answers [MakeLog].
func (m *Recovery) LogMade(ok bool) {
	if m.stage != making {
		return
	}
	if !ok {
		m.Retry()
		return
	}
	m.stage = activating
	m.record = Record{Active: Era{
		Number: m.era, Set: slices.Clone(m.record.Next), Base: m.adopted, Cut: len(m.record.Lost) > 0,
	}}
	m.emit(WriteRecord{m.record})
}
