package keyspacesim

import "slices"

// clientPatience is the mean time after which a client gives up a request, whose outcome is then unknown.
const clientPatience = 40 * ms

// client does one operation after another, each at some gateway.
type client struct {
	w    *world
	left int
}

func (c *client) think() { c.w.After(c.w.exp(c.w.Think), c.next) }

// next does one operation.
func (c *client) next() {
	w := c.w
	x := &request{w: w, l: w.gateways[w.rng.IntN(len(w.gateways))].life, write: w.rng.IntN(2) == 0, floor: len(w.shown)}
	x.ended = func(ok bool) {
		if !ok {
			w.result.Unknown++
		}
		if c.left--; c.left == 0 {
			w.busy--
			return
		}
		c.think()
	}
	x.begin()
}

// request is an operation of a client.
type request struct {
	w     *world
	l     *life
	write bool
	id    uint64
	index uint64 // of the write's entry
	era   uint64 // of the write's entry
	floor int    // how much was shown when the request began
	since uint64 // world.forced then
	done  bool
	ended func(ok bool)
}

// begin sends a request to its gateway, and a write to one that writes the log.
func (x *request) begin() {
	w := x.w
	x.id, x.since = w.id(), w.forced
	if x.write {
		x.l = nil
		for _, i := range w.rng.Perm(len(w.gateways)) {
			if l := w.gateways[i].life; l != nil && l.writer != nil && l.writer.leads &&
				(!w.Fresh || l.writer.era == w.record.Active.Number) {
				x.l = l
				break
			}
		}
	}
	w.After(ms+uint64(w.rng.ExpFloat64()*float64(clientPatience)), x.fails)
	if x.l == nil {
		return
	}
	w.After(w.delay(), func() {
		x.l.enter(func() {
			switch l := x.l; {
			case !x.write:
				l.reads[x.id] = x
				l.core.Read(x.id)
			case l.writer != nil && l.writer.leads:
				if x.index, x.era = l.writer.append(x.id), l.writer.era; x.index > 0 {
					l.writes = append(l.writes, x)
				}
			}
		})
	})
}

// fails says that there was no answer.
func (x *request) fails() { x.end(false) }

func (x *request) end(ok bool) {
	if x.done {
		return
	}
	x.done = true
	if x.l != nil {
		x.l.writes = slices.DeleteFunc(x.l.writes, func(y *request) bool { return y == x })
	}
	x.ended(ok)
}

// read answers a read from the state that its gateway has applied.
func (x *request) read() {
	l, w := x.l, x.w
	if x.done {
		return
	}
	w.note("%v answers read %d with %d entries; %d were shown before", l, x.id, l.applied, x.floor)
	w.result.Ops++
	w.result.Reads++
	switch {
	case x.since != w.forced: // what it began with may be lost
	case l.era() < w.forced:
		w.broken("stale: %v answers a read in era %d, and disks were given up before era %d", l, l.era(), w.forced)
	case l.applied < x.floor:
		w.broken("stale: %v answers a read with %d entries, and %d were shown before it began", l, l.applied, x.floor)
	}
	w.show(l, "to a reader", l.state[:l.applied])
	x.end(true)
}

// acknowledge answers the writes whose entries count.
func (l *life) acknowledge() {
	counted := l.core.Counted()
	for _, x := range slices.Clone(l.writes) {
		if x.index > counted || x.done {
			continue
		}
		if l.state[x.index-1].id != x.id {
			x.fails() // a later writer was faster
			continue
		}
		l.w.note("%v acknowledges write %d, entry %d", l, x.id, x.index)
		l.w.result.Ops++
		l.w.result.Writes++
		l.w.show(l, "to a writer", l.state[:x.index])
		x.end(true)
	}
}
