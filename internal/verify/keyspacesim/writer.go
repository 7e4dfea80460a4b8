package keyspacesim

import "github.com/netcraq/netcraq/internal/keyspace/core"

// writer appends to an era's log with a term. Nobody trusts the lock that gave the term: there may be several writers.
type writer struct {
	l         *life
	era, term uint64
	leads     bool
	trying    bool
	next      uint64
	from      uint64            // the first entry that was not handed over
	written   map[uint64]uint64 // the writes in the entries from there on that the chain has committed
}

// pushed is entries that a writer hands over.
type pushed struct {
	era, term, from uint64
	ids             []uint64 // of their writes
	counted         uint64   // up to where entries count
}

// report is what the entries tell.
func (p *pushed) report() core.Report {
	return core.Report{Era: p.era, Log: p.from + uint64(len(p.ids)) - 1, Counted: p.counted}
}

// elections gives the lock to some gateway now and then.
func (w *world) elections() {
	for _, i := range w.rng.Perm(len(w.gateways)) {
		if l := w.gateways[i].life; l != nil && l.core.Status().Entered &&
			(!w.Fresh || l.era() == w.record.Active.Number) {
			w.terms++
			l.writer = &writer{l: l, era: l.era(), term: w.terms}
			w.note("%v has the lock with term %d", l, w.terms)
			break
		}
	}
	next := w.exp(w.Elect)
	if w.calm { // somebody keeps it
		next = 200 * ms
	}
	w.After(ms+next, w.elections)
}

// lead makes the log the writer's.
func (l *life) lead() {
	m, s := l.writer, l.core.Status()
	if m == nil || m.leads || m.trying || !s.Entered || s.Broken {
		return
	}
	m.trying = true
	l.w.chain.read(l, m.era, s.At.Next, func(found stored, ok bool) {
		m.trying = false
		now := l.core.Status()
		if !ok || l.writer != m || now.At != s.At {
			return
		}
		switch s.At.Fence(m.term, found.cell) {
		case core.Written:
			m.leads, m.next, m.from, m.written = true, s.At.Next, s.At.Next, make(map[uint64]uint64)
			l.w.note("%v writes era %d from entry %d on", l, m.era, m.next)
		case core.Deposed:
			l.writer = nil
		case core.ReadOn:
			l.core.Look()
		case core.WriteCell:
			if core.Fits(s.At.Next, 1, l.core.Counted(), uint64(l.w.Ring)) {
				m.trying = true
				l.w.chain.write(l, m.era, s.At.Next, found.version, core.Cell{Index: s.At.Next, Term: m.term}, l.w.id(), func(_, _ bool) {
					m.trying = false
					l.core.Look()
				})
			}
		}
	})
}

// append writes an entry behind the log's end, if it has room. It returns the entry's index, or 0.
func (m *writer) append(id uint64) uint64 {
	counted := m.l.core.Counted()
	if m.next > counted+uint64(m.l.w.Ahead) || !core.Fits(m.next, 1, counted, uint64(m.l.w.Ring)) {
		return 0
	}
	index := m.next
	m.next++
	if m.l.w.Without&core.Place != 0 {
		m.push(pushed{era: m.era, term: m.term, from: index, ids: []uint64{id}})
	}
	m.put(index, id)
	return index
}

// wrote hands over the entries that the chain has committed with all before.
func (m *writer) wrote(index, id uint64) {
	m.written[index] = id
	p := pushed{era: m.era, term: m.term, from: m.from}
	for id, ok := m.written[m.from]; ok; id, ok = m.written[m.from] {
		delete(m.written, m.from)
		m.from, p.ids = m.from+1, append(p.ids, id)
	}
	if len(p.ids) > 0 {
		m.push(p)
	}
}

// push hands entries to all gateways.
func (m *writer) push(p pushed) {
	l := m.l
	from := l.g.disk.Disk
	p.counted = l.core.Tell(p.era)
	for _, g := range l.w.gateways {
		if g != l.g {
			l.w.send(l.g, g, func(x *life) {
				x.keep(p, func(era, term, first, last uint64) { x.core.Pushed(from, era, term, first, last) })
				x.core.Reported(from, p.report())
			})
		}
	}
	l.keep(p, l.core.Written)
}

// put writes an entry until it is there or the writer is deposed.
func (m *writer) put(index, id uint64) {
	chain, l := &m.l.w.chain, m.l
	chain.read(l, m.era, index, func(found stored, ok bool) {
		switch {
		case l.writer != m || found.cell.Lost && ok:
			return
		case !ok:
			m.put(index, id)
			return
		}
		switch core.Judge(m.term, index, found.cell) {
		case core.Deposed:
			l.writer = nil
		case core.Written:
			m.wrote(index, id)
		case core.WriteCell:
			chain.write(l, m.era, index, found.version, core.Cell{Index: index, Term: m.term}, id, func(swapped, ok bool) {
				switch {
				case swapped && ok:
					m.wrote(index, id)
				case l.writer == m:
					m.put(index, id)
				}
			})
		}
	})
}
