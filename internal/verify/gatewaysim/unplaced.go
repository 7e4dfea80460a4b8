package gatewaysim

import (
	"slices"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// lookAgain is how often a message that waits for the chain looks at the directory.
const lookAgain = 10 * ms

// write takes a client's transaction. Without a session etcd executes it only while nothing is placed.
func (p *process) write(id uint64, t *core.Txn) {
	if p.core.Serving() {
		p.core.Txn(id, t)
		return
	}
	p.writeUnplaced(id, t, p.core.IfUnplaced(), func() { p.writeUnused(id, t) })
}

// writeUnused executes a transaction if etcd is unused. Otherwise it waits for a session.
func (p *process) writeUnused(id uint64, t *core.Txn) {
	w, v := p.g.w, p.core.Vacancy()
	wait := func() { p.core.Txn(id, t) }
	var step func()
	step = func() {
		r, more := v.Next()
		if more {
			w.sendEtcd(p, func() *core.Result { return w.etcd.doAs(nobody, "", &r) }, func(result *core.Result) {
				if result.Leases = p.others(result.Leases); !p.ended { // else the call passes
					v.Took(result)
					step()
				}
			})
			return
		}
		if conditions, ok := v.Conditions(); ok {
			p.writeUnplaced(id, t, conditions, wait)
		} else {
			wait()
		}
	}
	step()
}

// writeUnplaced executes a transaction under conditions under which nothing is placed. If they do not hold, it does
// something else.
func (p *process) writeUnplaced(id uint64, t *core.Txn, conditions []core.Cond, placed func()) {
	w, x := p.g.w, p.g.asked[id]
	r := &core.Request{If: conditions, Txn: t, Show: []string{x.key}}
	p.flying[id] = true
	execute := func() *core.Result {
		result := w.etcd.doAs(x.who, "", r)
		w.note("etcd executes %s without a session: %s", x.name, describe(result))
		return result
	}
	w.sendEtcd(p, execute, func(r *core.Result) {
		delete(p.flying, id)
		switch {
		case p.ended:
			p.cutOff(id, r)
		case r.TooMany, r.Err == nil && !r.Unknown && !r.Held:
			placed()
		case r.Err != nil || r.Unknown:
			p.answer(id, r)
		default:
			w.result.Unplaced++
			p.looks(w.Now, r.Rev, true, false)
			p.answer(id, r)
		}
	})
}

// reveal shows a message of etcd as soon as that is allowed.
func (p *process) reveal(m core.Message, rev int64, show func()) {
	if p.core.Shows(m, rev) {
		show()
		return
	}
	p.g.last++
	id := p.g.last
	p.revealed[id] = show
	p.core.Reveal(id, rev)
	if !p.core.Serving() {
		p.look(id, m, rev)
	} else {
		p.lookLater(id, m, rev)
	}
}

// shown shows a message that may be shown.
func (p *process) shown(id uint64) {
	if show := p.revealed[id]; show != nil {
		delete(p.revealed, id)
		show()
	}
}

// look has a member of etcd look at the directory.
func (p *process) look(id uint64, m core.Message, rev int64) {
	w := p.g.w
	if p.revealed[id] == nil || p.ended {
		return
	}
	type looked struct {
		rev            int64
		unplaced, same bool
	}
	asked := w.Now
	question(w, p, func() looked {
		rev := w.etcd.older()
		timeline, count := w.etcd.at(timelineKey, rev).kv.Value, w.etcd.at(countKey, rev).kv.Value
		return looked{rev, p.unplaced(rev), p.began && p.core.InTimeline(timeline, count)}
	}, func(l looked) {
		if p.ended {
			return
		}
		if p.looks(asked, l.rev, l.unplaced, l.same); p.core.Shows(m, rev) {
			p.shown(id)
		}
	})
	p.lookLater(id, m, rev)
}

func (p *process) lookLater(id uint64, m core.Message, rev int64) {
	p.g.w.After(lookAgain, func() { p.g.w.enter(p, func() { p.look(id, m, rev) }) })
}

// unplaced reports whether nothing was placed at a revision, as a member says that has that revision.
func (p *process) unplaced(rev int64) bool {
	e, alone := p.g.w.etcd, p.core.Alone()
	listed := &core.Result{Rev: rev, Leases: p.others(e.living())}
	return e.all(p.core.Unplaced(), rev) || alone != nil && e.all(alone, rev) && p.core.Deserted(listed)
}

// others are the leases that are not the process's own.
func (p *process) others(leases []int64) []int64 {
	own := p.g.w.etcd.numbers[p.core.Lease()]
	return slices.DeleteFunc(leases, func(lease int64) bool { return lease == own })
}
