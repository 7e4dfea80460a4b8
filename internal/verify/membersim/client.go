package membersim

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/member/core"
)

// clientPatience is the mean time after which a client gives up a request, whose outcome is then unknown.
const clientPatience = float64(60 * ms)

// fastWait is how long a read waits until its point is applied.
const fastWait = 10 * ms

// client does one operation after another, each at some member.
type client struct {
	w    *world
	left int
}

func (c *client) think() {
	c.w.After(uint64(c.w.rng.ExpFloat64()*float64(c.w.Think)), c.next)
}

// request is an operation of a client.
type request struct {
	c            *client
	l            *life
	name         string
	key          int
	floor        core.Point // what was shown when it began
	linearizable bool
	done         bool
}

// next does one operation, if a member serves.
func (c *client) next() {
	w := c.w
	l := w.members[w.rng.IntN(len(w.members))].life
	if l == nil || !l.ready || l.m.stopping {
		c.think()
		return
	}
	x := &request{c: c, l: l, key: w.rng.IntN(w.Keys), floor: w.shown, linearizable: true}
	w.After(10*ms+uint64(w.rng.ExpFloat64()*clientPatience), func() {
		x.fails()
	})
	do := x.begin(w.rng.IntN(20))
	w.note("%s begins; %+v was shown", x.name, x.floor)
	w.After(w.delay(), func() { w.enter(l, do) })
}

// begin draws an operation.
func (x *request) begin(n int) func() {
	name := func(what string) { x.name = fmt.Sprintf("%s %d at %v", what, x.c.w.id(), x.l) }
	switch {
	case n < 7:
		name("put")
		return func() { x.change(write) }
	case n == 7:
		name("silent change")
		return func() { x.change(silent) }
	case n < 11:
		name("local read")
		x.linearizable = false
		return func() {
			p := core.Point{Revision: x.l.point().Revision}
			x.l.reveal(p, core.Local, func() { x.answered(p) })
		}
	}
	name("read")
	return x.read
}

// change writes something through the log.
func (x *request) change(k kind) {
	l, id := x.l, x.c.w.id()
	l.requests[id] = func(p core.Point) {
		if k == write {
			p.Index = 0
		}
		l.reveal(p, core.Write, func() { x.answered(p) })
	}
	l.propose(entry{kind: k, key: x.key, id: id})
}

// read is linearizable. Learners refuse it.
func (x *request) read() {
	l := x.l
	for _, m := range l.list {
		if m.ID == l.m.id && m.learner {
			x.end()
			return
		}
	}
	if l.core == nil {
		x.slow()
		return
	}
	id := x.c.w.id()
	l.reads[id] = x
	l.event(func() { l.core.Read(l.now(), id) })
}

// ready answers at a point, when it is applied.
func (x *request) ready(p core.Point) {
	l, w := x.l, x.c.w
	ended := false
	w.After(fastWait, func() {
		w.enter(l, func() {
			if !ended {
				ended = true
				x.slow()
			}
		})
	})
	l.wait(int(p.Index), func() {
		if ended {
			return
		}
		ended = true
		if l.point().Revision < p.Revision {
			x.slow()
			return
		}
		l.soon(func() {
			w.result.Fast++
			x.answered(core.Point{Revision: p.Revision})
		})
	})
}

// slow asks the log.
func (x *request) slow() {
	l := x.l
	l.readIndex(func(ok bool) {
		if !ok {
			x.fails()
			return
		}
		p := core.Point{Revision: l.point().Revision}
		l.reveal(p, core.Local, func() { x.answered(p) })
	})
}

// fails says that there was no answer.
func (x *request) fails() {
	if !x.done {
		x.c.w.result.Unknown++
		x.end()
	}
}

func (x *request) end() {
	if x.done {
		return
	}
	x.done = true
	if x.c.left--; x.c.left == 0 {
		x.c.w.busy--
		return
	}
	x.c.think()
}

// answered checks an answer, which has a header of the point's revision.
func (x *request) answered(p core.Point) {
	w, l := x.c.w, x.l
	if x.done {
		return
	}
	w.result.Ops++
	w.note("%s is answered: %+v; applied %+v", x.name, p, l.point())
	own := l.point()
	switch {
	case p.Revision > own.Revision:
		w.broken("exact: %s has header %d, and its member is at %d", x.name, p.Revision, own.Revision)
	case !x.linearizable:
	case p.Revision < x.floor.Revision:
		w.broken("stale: %s has header %d, and %d was shown before", x.name, p.Revision, x.floor.Revision)
	case own.Index < x.floor.Index:
		w.broken("stale: %s is answered at entry %d, and a change of entry %d was acknowledged before", x.name, own.Index, x.floor.Index)
	}
	w.shown.Revision, w.shown.Index = max(w.shown.Revision, p.Revision), max(w.shown.Index, p.Index)
	x.end()
}
