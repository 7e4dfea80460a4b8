package core

// Ask is a recoverer's request that the own disk stores no more entries of eras below era. [Answer] answers it when
// that is synced, with what the disk has.
func (m *Replica) Ask(call, era uint64) {
	if era < m.promised {
		m.emit(Answer{Call: call, Promised: m.promised})
		return
	}
	if era > m.promised && m.o.Without.on(Promise) {
		m.promised = era
		m.emit(Vow{m.store(), era})
	}
	m.asks = append(m.asks, ask{call, m.seq})
	m.answer()
}

// Install is a recoverer's request to store the state with which an era begins. It includes the promise of [Replica.Ask].
// [Answer] answers it when the state is synced.
func (m *Replica) Install(call uint64, base Position) {
	if base.Era < m.promised || base.Era < m.last.Era {
		m.emit(Answer{Call: call, Promised: max(m.promised, m.last.Era)})
		return
	}
	m.promised = base.Era
	if m.last.Era < base.Era {
		m.last = base
		m.emit(Store{m.store(), base})
	}
	m.asks = append(m.asks, ask{call, m.seq})
	m.answer()
}

// answer answers the requests of recoverers whose writes are synced.
func (m *Replica) answer() {
	n := 0
	for ; n < len(m.asks); n++ {
		if len(m.writes) > 0 && m.writes[0].seq <= m.asks[n].seq {
			break
		}
		m.emit(Answer{Call: m.asks[n].call, Last: m.durable})
	}
	m.asks = m.asks[n:]
}
