package core

import "slices"

// joined reports whether this member has said, or is about to say, that it has joined a view.
func (m *Machine) joined() bool { return m.record.View != 0 }

// reading reports whether all members have joined the own view, by the last sample.
func (m *Machine) reading() bool {
	return m.joined() && m.state.Phase == On && m.state.View == m.record.View
}

// granted reports whether the own clock lets a read have a revision.
func (m *Machine) granted(now, revision int64) bool {
	return slices.ContainsFunc(m.grants, func(g grant) bool {
		return (now < g.asked+m.o.TTL/10*9 || !m.on(Session)) && revision >= g.floor
	})
}

// take handles a sample.
func (m *Machine) take(now int64, s Sample) {
	own := Record{}
	if i := slices.IndexFunc(s.Members, func(x Member) bool { return x.ID == m.o.Member }); i >= 0 {
		own = s.Members[i].Record
	}
	if !m.sampled || own != m.own {
		m.own, m.ownSince = own, now
	}
	m.sample, m.sampled, m.state = s, true, StateOf(s.Members)
	m.applied = m.applied.join(s.Applied)
	if m.joined() && m.state.View != m.record.View {
		m.leave()
	}
	if !m.joined() && m.exposed && m.allLeft() {
		m.exposed = false
	}
}

// allLeft reports whether no other member can read fast in the view that this member left.
func (m *Machine) allLeft() bool {
	if m.left == 0 {
		return !slices.ContainsFunc(m.sample.Members, func(x Member) bool { return !x.Record.Plain() })
	}
	left := 0
	for _, x := range m.sample.Members {
		if x.ID == m.o.Member || x.Record.Left == m.left && slices.Contains(m.set, x.ID) {
			left++
		}
	}
	return left == len(m.set)
}

// leave ends the fast reads of this member in its view. It takes part in no view until it has another
// number.
func (m *Machine) leave() {
	m.record.Left, m.record.View, m.record.Number = m.record.View, 0, 0
	m.grants, m.valid, m.lacks = nil, false, 0
	m.slow(NotOn)
}

// failed leaves because of the chain.
func (m *Machine) failed(now int64) {
	if m.joined() {
		m.leave()
	}
	m.record.Number, m.object.seen = 0, false
	m.resting = now + m.o.Rest
}

// draw returns a number that no life of a member has had.
func (m *Machine) draw() uint64 {
	if m.drawn++; m.drawn == 0 {
		m.drawn++
	}
	return m.drawn
}

// join begins to join, or ceases to, as the member wants.
func (m *Machine) join(now int64) {
	switch out := !m.want || len(m.leaves) > 0; {
	case out && m.joined():
		m.leave()
	case out:
		m.record.Number = 0
	case m.record.Number == 0 && m.sampled && !m.exposed && m.object.seen && now >= m.resting:
		if m.record.Number = m.o.Member; m.on(Lower) {
			m.record.Number = m.draw()
		}
	}
}

// target returns the view that the own object may name now, before this member joins it; 0: none.
func (m *Machine) target() uint64 {
	if m.record.Number == 0 || m.joined() || m.own.Number != m.record.Number || m.state.Phase == Off {
		return 0
	}
	for _, x := range m.sample.Members {
		if g := x.Record.View; g != 0 && g != m.state.View {
			return 0 // that member has not seen yet that its view is over
		}
	}
	return m.state.View
}

// enter joins the view that the own object names.
func (m *Machine) enter(view uint64) {
	m.record.View, m.left, m.exposed = view, view, true
	m.known, m.owed = Point{}, owed{}
	m.set = m.set[:0]
	for _, x := range m.sample.Members {
		m.set = append(m.set, x.ID)
	}
}

// waited reports whether this member has been seen as out for so long that nobody reads fast who has not seen it.
func (m *Machine) waited(now int64) bool {
	return m.sampled && !m.joined() && m.own.View == 0 && now-m.ownSince >= m.o.TTL
}

// settle tells who left that nothing is shown any more that others miss.
func (m *Machine) settle(now int64) {
	if m.joined() || m.exposed && !m.waited(now) {
		return
	}
	var ids []uint64
	for i := range m.leaves {
		if l := &m.leaves[i]; !l.told {
			l.told = true
			ids = append(ids, l.id)
		}
	}
	if len(ids) > 0 {
		m.emit(Left{ids})
	}
}

// again is how many ticks a proposal may take before it is sent again.
const again = 6

// propose writes the own record if the sample shows another one.
func (m *Machine) propose(now int64) {
	isMember := slices.ContainsFunc(m.sample.Members, func(x Member) bool { return x.ID == m.o.Member })
	wanted, is := m.record, m.own
	if wanted.Serial, is.Serial = 0, 0; wanted == is || !isMember {
		return
	}
	last := m.sent
	if last.Serial = 0; last == wanted && now-m.sentAt < again*m.o.Every {
		return
	}
	m.record.Serial = m.draw()
	m.sent, m.sentAt = m.record, now
	m.emit(Propose{m.record})
}

// renew keeps the right to read fast.
func (m *Machine) renew(now int64) {
	if !m.reading() {
		return
	}
	if pause := now - m.asked; !m.renewing && (pause >= m.o.TTL/3 || len(m.grants) == 0 && pause >= m.o.Every) {
		m.renewing, m.asked = true, now
		m.emit(Renew{})
	}
}
