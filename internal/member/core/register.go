package core

import "slices"

// object is what this member knows of its own object in the chain.
type object struct {
	seen           bool // all else is known
	exists         bool
	version, epoch uint64
	value          Object
	call           uint64 // under way; 0: none
	writes         bool   // that call is a write
	next           Object // that it writes
	after          int64  // when the next call may begin: after a failure
}

// bundle is a read of all objects.
type bundle struct {
	call  uint64 // under way; 0: none
	view  uint64
	reads []uint64
	valid bool // a grant was valid when the last tick before the bundle looked
	owed  Point
}

// owed is what this member has applied, nobody waits for here, and the register did not have then.
type owed struct {
	point Point
	since int64
	due   bool // the register did not have it after a while
}

func (m *Machine) call() uint64 {
	m.calls++
	return m.calls
}

// changeObject begins the next change of the own object, if one is due.
func (m *Machine) changeObject(now int64) {
	next, due := m.nextObject(now)
	switch o := &m.object; {
	case !due || o.call != 0 || now < o.after:
	case !o.seen:
		o.call, o.writes = m.call(), false
		m.emit(ReadObjects{o.call, []uint64{m.o.Member}})
	case m.joined() && o.exists && o.value.View != m.record.View:
		m.taken++ // by another cluster
		m.failed(now)
	default:
		o.call, o.writes, o.next = m.call(), true, next
		w := WriteObject{Call: o.call, Version: o.version, Epoch: o.epoch, Object: next}
		w.AnyVersion = !m.on(OwnObject)
		m.emit(w)
	}
}

// nextObject returns what the own object is to be, and whether a change is due.
func (m *Machine) nextObject(now int64) (next Object, due bool) {
	if m.joined() {
		lost := !m.object.seen || !m.object.exists // it is made again: this life has applied all that it pushed before
		other := m.object.value.View != m.record.View
		return Object{m.record.View, m.applied}, m.behind(now) || lost || other
	}
	if now < m.resting && !m.waits() {
		return next, false
	}
	if target := m.target(); target != 0 {
		return Object{target, Point{}}, true
	}
	return next, m.sampled && (m.exposed || m.want && !m.object.seen)
}

// waits reports whether something waits until others cannot read fast.
func (m *Machine) waits() bool { return m.exposed && len(m.reveals)+len(m.leaves) > 0 }

// behind reports whether a push is due.
func (m *Machine) behind(now int64) bool {
	switch {
	case m.known.covers(m.applied):
		return false
	case len(m.reveals) > 0 || len(m.grants) > 0 && !m.granted(now, m.known.Revision):
		return true
	case m.reading():
		return m.owed.due
	}
	return now-m.owed.since >= m.o.Every
}

// look reads the register when this member has had for a while what nobody waits for here. As a rule another member,
// whose client waited for it, has pushed it. If not, this member does.
func (m *Machine) look(now int64) {
	switch {
	case !m.joined():
	case m.known.covers(m.owed.point):
		m.owed = owed{point: m.applied, since: now}
	case now-m.owed.since >= m.o.Every && !m.owed.due:
		m.readAll(now, true)
	}
}

// Written answers [WriteObject]. version is that of the key if the outcome is [Done].
func (m *Machine) Written(now int64, call uint64, outcome Outcome, version uint64) {
	o := &m.object
	if call != o.call || !o.writes {
		return
	}
	o.call = 0
	if o.seen = outcome == Done; o.seen {
		o.exists, o.version, o.value = true, version, o.next
		switch {
		case !m.joined() && o.value.View == m.left && m.left != 0 && m.on(Lower): // it was sent before this member left
		case !m.joined():
			m.exposed = false // the object does not count any more where this member was
			if target := m.target(); target != 0 && target == o.value.View {
				m.enter(target)
			}
		case o.value.View == m.record.View:
			m.known = m.known.join(o.value.Point)
		}
	}
	m.answered(now, outcome != Unknown)
}

// Objects answers [ReadObjects]: the objects in the order of the call. ok is false if the chain did not answer for all.
func (m *Machine) Objects(now int64, call uint64, found []Found, ok bool) {
	switch o := &m.object; {
	case call == m.bundle.call:
		m.bundled(now, found, ok)
		return
	case call != o.call || o.writes:
		return
	case ok:
		o.call, o.seen = 0, true
		o.exists, o.version, o.epoch = found[0].Exists, found[0].Version, found[0].Epoch
		o.value, _ = DecodeObject(found[0].Value) // what is no object counts for no view
		if m.joined() && o.exists && o.value.View == m.record.View {
			m.known = m.known.join(o.value.Point)
		}
	default:
		o.call = 0
	}
	m.answered(now, ok)
}

// answered goes on after a call of the own object. What failed is tried again after a while.
func (m *Machine) answered(now int64, ok bool) {
	if m.object.after = now; !ok {
		m.object.after = now + m.o.Every
		if !m.joined() {
			m.failed(now)
		}
	}
	m.proceed(now)
}

// readAll reads the register for the reads that wait, or in any case.
func (m *Machine) readAll(now int64, anyway bool) {
	if m.bundle.call != 0 || len(m.reads) == 0 && !anyway || !m.reading() {
		return
	}
	m.bundle = bundle{call: m.call(), view: m.record.View, reads: m.reads, valid: m.valid}
	if m.reads = nil; now-m.owed.since >= m.o.Every {
		m.bundle.owed = m.owed.point
	}
	m.emit(ReadObjects{m.bundle.call, slices.Clone(m.set)})
}

// slow answers all reads that wait.
func (m *Machine) slow(why Reason) {
	if reads := append(m.bundle.reads, m.reads...); len(reads) > 0 {
		m.emit(Slow{reads, why})
	}
	m.bundle.reads, m.reads = nil, nil
}

// bundled takes the objects of all members.
func (m *Machine) bundled(now int64, found []Found, ok bool) {
	b := m.bundle
	m.bundle = bundle{}
	register, why, whole := m.register(b.view, found, ok)
	if whole && m.joined() && b.view == m.record.View {
		m.known = m.known.join(register)
		m.owed.due = m.owed.due || !m.known.covers(b.owed)
	}
	m.miss(now, b.view, found, ok)
	granted := m.granted(now, register.Revision)
	if !m.on(Recheck) {
		granted = b.valid
	}
	switch {
	case len(b.reads) == 0:
	case !whole:
		m.emit(Slow{b.reads, why})
	case !m.reading():
		m.emit(Slow{b.reads, NotOn})
	case !granted:
		if why = NoSession; m.granted(now, m.applied.Revision) {
			why = BelowJoined
		}
		m.emit(Slow{b.reads, why})
	default:
		if !m.on(Exact) {
			register = register.join(m.applied)
		}
		m.emit(Ready{b.reads, register})
	}
	if m.joined() && b.view == m.record.View {
		switch {
		case !ok:
			m.failed(now)
		case !counts(found[slices.Index(m.set, m.o.Member)], b.view): // the chain lost it
			m.object.seen = false
		}
	}
	m.readAll(now, false)
	m.proceed(now)
}

// miss notes whose object is missing in an answer of the chain.
func (m *Machine) miss(now int64, view uint64, found []Found, ok bool) {
	if !ok || !m.joined() || view != m.record.View {
		return
	}
	i := slices.IndexFunc(found, func(f Found) bool { return !counts(f, view) })
	switch {
	case i < 0:
		m.lacks = 0
	case m.lacks == 0:
		m.lacks, m.since = m.set[i], now
	}
}

// counts reports whether an object counts for a view.
func counts(f Found, view uint64) bool {
	o, err := DecodeObject(f.Value)
	return f.Exists && err == nil && o.View == view
}

// register returns the greatest point, if all objects count for the view.
func (m *Machine) register(view uint64, found []Found, ok bool) (p Point, why Reason, whole bool) {
	if !ok {
		return p, NoChain, false
	}
	for _, f := range found {
		switch o, _ := DecodeObject(f.Value); {
		case counts(f, view):
			p = p.join(o.Point)
		case m.on(Whole):
			return p, NoObject, false
		}
	}
	return p, 0, true
}

// show lets everything be shown that may be.
func (m *Machine) show(now int64) {
	if len(m.reveals) == 0 {
		return
	}
	var ids []uint64
	m.reveals = slices.DeleteFunc(m.reveals, func(r reveal) bool {
		shown := m.MayShow(r.point) || m.seenOut(now, &r)
		if shown {
			ids = append(ids, r.id)
		}
		return shown
	})
	if len(ids) > 0 {
		m.emit(Show{ids})
	}
	if len(m.reveals) > 0 && !m.joined() && m.waited(now) && !m.looking {
		m.looking = true
		m.emit(Look{})
	}
}

// MayShow reports whether p, which the own store has, may be shown now. If not, [Machine.Reveal] says when it may.
func (m *Machine) MayShow(p Point) bool {
	return !m.joined() && (!m.exposed || !m.on(OffWait)) || m.exposed && m.known.covers(p)
}

// seenOut reports whether a sample taken since the call says that this member has been out for long: its record could
// have come back since an earlier sample.
func (m *Machine) seenOut(now int64, r *reveal) bool {
	return m.waited(now) && m.sample.Asked >= r.since
}
