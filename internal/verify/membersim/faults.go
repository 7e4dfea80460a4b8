package membersim

// mostMembers and leastMembers bound a cluster that changes.
const (
	mostMembers  = 5
	leastMembers = 2
	mostEver     = 200 // numbers fit into addresses
)

// nextFault plans the next fault.
func (w *world) nextFault() {
	w.After(uint64(w.rng.ExpFloat64()*float64(w.Every)), func() {
		if w.calm {
			return
		}
		if f := Fault(w.rng.IntN(int(Lost))); w.Quiet&(1<<f) == 0 {
			w.strike(f)
		}
		w.nextFault()
	})
}

func (w *world) strike(f Fault) {
	m := w.members[w.rng.IntN(len(w.members))]
	lasts := w.rng.Uint64N(2 * uint64(w.TTL))
	until := w.Now + lasts
	w.result.Faults[f]++
	w.note("fault: %v, member %d, for %d us", f, m.id, lasts/1000)
	switch f {
	case Crash:
		m.crash()
		w.restart(m, false)
	case Pause:
		until = w.sever(m, until)
		m.paused = max(m.paused, until)
	case CutRaft:
		until = w.sever(m, until)
		m.cutRaft = max(m.cutRaft, until)
	case CutChain:
		m.cutChain = max(m.cutChain, until)
	case Slow:
		until = w.sever(m, until)
		m.slow = max(m.slow, until)
	case LeaderLost:
		w.raft.away = w.Now + lasts/2
	case ShardAway:
		w.shards[w.rng.IntN(len(w.shards))].away = until
	case LoseShard:
		i := w.rng.IntN(len(w.shards))
		w.result.Reconfigurations++
		w.shards[i] = w.newShard(i, w.shards[i].epoch+1)
	case Switch:
		all := w.rng.IntN(2) == 0
		for _, x := range w.members {
			if all || x == m {
				x.want(true)
				w.After(lasts, func() { x.want(false) })
			}
		}
	case Replace:
		w.replace(m)
	case AddMember, RemoveMember:
		w.changeMembers(f)
		if w.rng.IntN(2) == 0 { // some member does not hear of it
			m.slow = max(m.slow, w.Now+uint64(w.TTL))
		}
	}
}

// sever cuts other members, sometimes, from the chain while one hears nothing, for so long that they show what the
// chain does not have. It returns until when the deaf one hears nothing.
func (w *world) sever(deaf *member, until uint64) uint64 {
	if w.Quiet&(1<<CutChain) != 0 || !w.Severe && w.rng.IntN(2) == 0 {
		return until
	}
	until = w.Now + uint64(w.TTL)*3/2 + w.rng.Uint64N(2*uint64(w.TTL))
	cut, one := until+w.rng.Uint64N(20*ms), w.rng.IntN(2*len(w.members)) // or all
	if w.Severe {
		one = len(w.members)
	}
	if w.rng.IntN(3) == 0 { // they are back while the deaf one may still read
		cut = w.Now + w.rng.Uint64N(uint64(w.TTL))
	}
	w.note("severed: member %d, for %d us; the chain, for %d us", deaf.id, (until-w.Now)/1000, (cut-w.Now)/1000)
	for i, m := range w.members {
		if m != deaf && (i == one || one >= len(w.members)) {
			w.result.Faults[CutChain]++
			m.cutChain = max(m.cutChain, cut)
		}
	}
	return until
}

// restart starts a member that is down, after a while.
func (w *world) restart(m *member, plain bool) {
	w.After(w.rng.Uint64N(uint64(w.TTL)), func() {
		if m.life == nil && !w.calm && w.raft.has(m.id) {
			m.plain = plain
			m.start()
		}
	})
}

// want switches chain reads off or on.
func (m *member) want(off bool) {
	w := m.w
	if w.calm {
		return
	}
	m.off = off
	if l := m.life; l != nil {
		w.enter(l, func() { l.event(func() { l.core.Want(l.now(), !m.off) }) })
	}
}

// leave calls then when a process may end or change the members.
func (l *life) leave(then func()) (id uint64) {
	if l.core == nil {
		then()
		return 0
	}
	id = l.m.w.id()
	l.leaves[id] = then
	l.event(func() { l.core.Leave(l.now(), id) })
	return id
}

// replace stops a process in order, and starts the next: plain etcd, or ours.
func (w *world) replace(m *member) {
	l := m.life
	if l == nil || !l.ready || m.stopping {
		return
	}
	w.enter(l, func() {
		m.stopping = true
		var id uint64
		id = l.leave(func() {
			if w.calm {
				l.comeBack(id)
				return
			}
			m.crash()
			w.restart(m, w.rng.IntN(2) == 0)
		})
	})
}

// changeMembers lets a member add another one, or remove one.
func (w *world) changeMembers(f Fault) {
	list := w.list(len(w.raft.log))
	l := w.members[list[w.rng.IntN(len(list))].ID-1].life
	if l == nil || !l.ready || l.m.stopping {
		return
	}
	e := entry{kind: remove, id: w.id()}
	if f == RemoveMember {
		e.member = list[w.rng.IntN(len(list))].ID
		if e.member == l.m.id || len(list) <= leastMembers {
			return
		}
	} else {
		if len(list) >= mostMembers || len(w.members) >= mostEver {
			return
		}
		e.kind, e.member = add, w.newMember().id
	}
	w.enter(l, func() {
		var id uint64
		id = l.leave(func() { l.changeMember(e, func() { l.comeBack(id) }) })
	})
}

// comeBack ends a leave.
func (l *life) comeBack(id uint64) {
	if id != 0 {
		l.event(func() { l.core.Return(l.now(), id) })
	}
}

// changeMember proposes a change until it is applied here.
func (l *life) changeMember(e entry, then func()) {
	w, done := l.m.w, false
	var try func()
	try = func() {
		switch {
		case done || l.dead:
		case w.raft.changed(&e, l.applied):
			done = true
			then()
		default:
			l.propose(e)
			w.After(10*ms, func() { w.enter(l, try) })
		}
	}
	try()
	if e.kind == add {
		w.begin(w.members[e.member-1])
	}
}

// begin starts a new member as soon as the log has it, and promotes it.
func (w *world) begin(m *member) {
	w.After(w.rng.Uint64N(5*ms), func() {
		switch {
		case !w.raft.has(m.id):
			w.begin(m)
		case m.lives == 0:
			m.plain = w.rng.IntN(2) == 0 && !w.calm
			m.durable = len(w.raft.log) // it begins with the leader's snapshot
			m.start()
			w.After(w.rng.Uint64N(20*ms), func() { w.raft.append(entry{kind: promote, member: m.id}) })
		}
	})
}
