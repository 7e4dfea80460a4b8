package membersim

import (
	"slices"

	"github.com/netcraq/netcraq/internal/member/core"
)

// kind is what an entry of the log does.
type kind uint8

const (
	write      kind = iota // a key gets a new revision
	silent                 // a change without a revision, such as one of authentication
	attributes             // a member's record; plain when it starts
	add                    // a member, as a learner
	promote
	remove
)

// entry is an entry of the log.
type entry struct {
	kind   kind
	member uint64
	record core.Record
	life   int    // of attributes that are published at a start
	key    int    // of a write
	id     uint64 // of a request
}

// raft is the replicated log: all that is committed, and nothing else.
type raft struct {
	w         *world
	log       []entry
	revisions []int64 // after each entry; the first is that of the empty log
	away      uint64  // until when there is no leader
}

func (r *raft) revision() int64 { return r.revisions[len(r.revisions)-1] }

// append commits an entry, unless it is a change of the members that was made before.
func (r *raft) append(e entry) {
	switch {
	case (e.kind == add || e.kind == remove) && r.changed(&e, len(r.log)):
		return
	case e.life != 0 && slices.ContainsFunc(r.log, func(x entry) bool { return x.life == e.life && x.member == e.member }):
		return // it was published before
	}
	revision := r.revision()
	if e.kind == write {
		revision++
	}
	r.log, r.revisions = append(r.log, e), append(r.revisions, revision)
	r.w.note("entry %d, revision %d: %v", len(r.log), revision, e)
	for _, m := range r.w.members {
		if m.life != nil {
			m.life.follow()
		}
	}
}

// changed reports whether a change of the members is among the first n entries.
func (r *raft) changed(e *entry, n int) bool {
	return slices.ContainsFunc(r.log[:n], func(x entry) bool { return x.kind == e.kind && x.member == e.member })
}

// has reports whether a member is in the newest list.
func (r *raft) has(id uint64) bool {
	return slices.ContainsFunc(r.w.list(len(r.log)), func(m listed) bool { return m.ID == id })
}

// listed is a member in a list.
type listed struct {
	core.Member
	learner bool
}

// list returns the members after the first n entries.
func (w *world) list(n int) (members []listed) {
	for _, e := range w.raft.log[:n] {
		members = change(members, &e)
	}
	return members
}

// change applies an entry to a list.
func change(members []listed, e *entry) []listed {
	i := slices.IndexFunc(members, func(m listed) bool { return m.ID == e.member })
	switch {
	case e.kind == add && i < 0:
		return append(members, listed{core.Member{ID: e.member}, true})
	case i < 0:
	case e.kind == attributes:
		members[i].Record = e.record
	case e.kind == promote:
		members[i].learner = false
	case e.kind == remove:
		return slices.Delete(members, i, i+1)
	}
	return members
}

// commits reports whether a majority of the voters hears each other.
func (r *raft) commits() bool {
	w := r.w
	voters, heard := 0, 0
	for _, x := range w.list(len(r.log)) {
		if x.learner {
			continue
		}
		voters++
		if m := w.members[x.ID-1]; m.life != nil && w.Now >= m.paused && w.Now >= m.cutRaft {
			heard++
		}
	}
	return w.Now >= r.away && (2*heard > voters || voters == 0)
}

// propose sends an entry to the leader. What comes of it is seen in the log.
func (l *life) propose(e entry) {
	w, m := l.m.w, l.m
	if w.Now < m.cutRaft {
		return
	}
	var arrive func()
	arrive = func() {
		switch {
		case (e.kind == add || e.kind == remove || e.life != 0) && l.dead, !w.raft.has(m.id):
		case w.raft.commits():
			w.raft.append(e)
		case w.rng.IntN(2) == 0: // it waits for a leader
			w.After(w.delay()+w.rng.Uint64N(20*ms), arrive)
		}
	}
	w.send(arrive)
}

// readIndexTimeout is when a read that asks the log counts as failed.
const readIndexTimeout = 40 * ms

// readIndex calls then, with true when the member has applied all that was committed when it was called, or with false.
func (l *life) readIndex(then func(ok bool)) {
	w, m := l.m.w, l.m
	done := false
	end := func(ok bool) {
		if !done {
			done = true
			then(ok)
		}
	}
	w.After(readIndexTimeout, func() { w.enter(l, func() { end(false) }) })
	if w.Now < m.cutRaft {
		return
	}
	w.send(func() {
		if !w.raft.commits() || !w.raft.has(m.id) {
			return
		}
		index := len(w.raft.log)
		w.send(func() { w.enter(l, func() { l.wait(index, func() { end(true) }) }) })
	})
}

// follow lets a member apply what is committed now, after a while.
func (l *life) follow() {
	w, m := l.m.w, l.m
	if l.following || l.dead {
		return
	}
	l.following = true
	index, pause := len(w.raft.log), w.delay()
	if !w.calm {
		pause += uint64(w.rng.ExpFloat64() * float64(w.Lag))
	}
	at := max(w.Now+pause, m.slow, m.cutRaft+w.delay())
	w.After(at-w.Now, func() {
		w.enter(l, func() {
			l.following = false
			if w.Now >= m.cutRaft {
				l.apply(index)
			}
			if l.applied < len(w.raft.log) {
				l.follow()
			}
		})
	})
}

// apply applies entries up to an index.
func (l *life) apply(index int) {
	w := l.m.w
	for l.applied < index && !l.dead {
		e := &w.raft.log[l.applied]
		l.applied++
		l.list = change(l.list, e)
		if e.member == l.m.id && e.life == l.number {
			l.serve()
		}
		if e.kind == remove && e.member == l.m.id {
			l.m.crash()
			return
		}
		if then := l.requests[e.id]; then != nil {
			delete(l.requests, e.id)
			then(core.Point{Revision: w.raft.revisions[l.applied], Index: uint64(l.applied)})
		}
	}
	if w.rng.IntN(2) == 0 {
		l.m.durable = l.applied
	}
	if w.rng.IntN(2) == 0 { // the member looks at once, or at the next tick
		l.event(func() { l.core.Applied(l.now(), l.sample()) })
	}
	waits := l.waits
	l.waits = nil
	for _, x := range waits {
		l.wait(x.index, x.then)
	}
}

// wait calls then when an index is applied.
func (l *life) wait(index int, then func()) {
	if l.applied >= index {
		then()
		return
	}
	l.waits = append(l.waits, waiting{index, then})
}

// point is what is applied.
func (l *life) point() core.Point {
	return core.Point{Revision: l.m.w.raft.revisions[l.applied], Index: uint64(l.applied)}
}
