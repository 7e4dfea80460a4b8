package keyspacesim

import (
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// gateway is a machine with a disk and, if it runs, a process.
type gateway struct {
	w    *world
	name uint64
	disk *disk
	life *life
	// Until when something is so.
	paused, cut, cutRecord, slow uint64
	lives                        int
}

// life is one process of a gateway.
type life struct {
	g       *gateway
	w       *world
	number  int
	dead    bool
	core    *core.Replica
	state   []item // applied, or read from the log of the era
	arrived []item // the content of a message
	applied int
	answers map[uint64]func(core.Answer)
	reads   map[uint64]*request
	writes  []*request // whose entries do not count yet
	writer  *writer
	repair  *repair
	version uint64 // of the record
	idle    uint64 // since when a recovery is due
}

func (l *life) String() string { return fmt.Sprintf("g%d.%d", l.g.name, l.number) }

func (l *life) era() uint64 { return l.core.Status().Record.Active.Number }

// start starts a process.
func (g *gateway) start() {
	g.lives++
	d := g.disk
	l := &life{
		g: g, w: g.w, number: g.lives, core: core.New(core.Options{Disk: d.Disk, Without: g.w.Without}, d.now.Stored),
		answers: make(map[uint64]func(core.Answer)), reads: make(map[uint64]*request),
	}
	g.life = l
	g.w.note("%v starts with promise %d, %+v", l, d.now.Promised, d.now.Last)
	d.write(l, 0, d.now, -1)
	g.w.readRecord(g)
	l.tick()
}

// end ends the process.
func (g *gateway) end() {
	l := g.life
	if l == nil {
		return
	}
	g.w.note("%v ends", l)
	l.dead, g.life = true, nil
	for _, x := range slices.Clone(l.writes) {
		x.fails()
	}
}

// enter does something in the process, as soon as it is not paused, and performs what follows.
func (l *life) enter(do func()) {
	w := l.w
	if l.dead {
		return
	}
	if w.Now < l.g.paused {
		w.After(l.g.paused-w.Now+uint64(w.rng.IntN(1000)), func() { l.enter(do) })
		return
	}
	do()
	for actions := l.core.Actions(); len(actions) > 0; actions = l.core.Actions() {
		for _, a := range actions {
			l.perform(a)
		}
	}
	if l.repair != nil {
		l.repair.perform()
	}
	l.acknowledge()
}

// tick looks now and then for what was missed.
func (l *life) tick() {
	w := l.w
	l.enter(func() {
		l.core.Poll()
		l.core.Repeat()
		if w.rng.IntN(4) == 0 {
			w.readRecord(l.g)
		}
		l.lead()
		l.mend()
	})
	if !l.dead {
		w.After(uint64(w.Poll)/2+w.exp(w.Poll)/2, l.tick)
	}
}

func (l *life) recorded(r core.Record, version uint64) {
	if version < l.version {
		return
	}
	before := l.era()
	if version > l.version {
		l.idle = 0 // a recovery is left alone for a while
	}
	l.version = version
	l.core.Recorded(r)
	if l.era() == before {
		return
	}
	l.writer = nil
	for _, x := range slices.Clone(l.writes) {
		x.fails()
	}
}

// perform does what the replica asks for.
func (l *life) perform(action core.Action) {
	w, d := l.w, l.g.disk
	if l.dead {
		return
	}
	switch a := action.(type) {
	case core.ReadLog:
		l.readLog(a)
	case core.Append:
		c := d.now
		first := int(a.From - 1)
		c.items = append(slices.Clip(c.items[:first]), l.state[first:a.To]...)
		c.Last = core.Position{Era: a.Era, Index: a.To, Term: c.items[a.To-1].term}
		d.write(l, a.Seq, c, first)
	case core.Mark:
		c := d.now
		c.items, c.Last = slices.Clip(c.items[:a.Position.Index]), a.Position
		d.write(l, a.Seq, c, -1)
	case core.Store:
		c := content{items: slices.Clip(l.arrived), Stored: core.Stored{Promised: max(d.now.Promised, a.Position.Era), Last: a.Position}}
		d.write(l, a.Seq, c, -1)
	case core.Vow:
		c := d.now
		c.Promised = a.Era
		d.write(l, a.Seq, c, -1)
	case core.Report:
		from := d.Disk
		for _, g := range w.gateways {
			if g != l.g && (a.To == (core.Disk{}) || a.To == g.disk.Disk) {
				w.send(l.g, g, func(x *life) { x.core.Reported(from, a) })
			}
		}
	case core.Remind:
		w.After(w.delay(), func() { l.enter(l.core.Remind) })
	case core.Fetch:
		l.fetch(a)
	case core.Enter:
		if l.state = slices.Clip(d.now.items); len(l.state) < l.applied && w.forced > 0 {
			w.stop(l.g, ms) // a gateway ends that has shown more than is left
			return
		}
		if len(l.state) < l.applied {
			w.broken("lost: %v has shown %d entries, and era %d begins with %d", l, l.applied, a.Era, len(l.state))
			l.applied = len(l.state)
		}
		w.note("%v enters era %d at %+v", l, a.Era, d.now.Last)
	case core.Advance:
		l.applied = int(a.Index)
		w.show(l, "to watchers", l.state[:l.applied])
	case core.Ready:
		for _, id := range a.Reads {
			x := l.reads[id]
			delete(l.reads, id)
			x.read()
		}
	case core.Answer:
		answer := l.answers[a.Call]
		delete(l.answers, a.Call)
		answer(a)
	}
}

// readLog reads some cells side by side.
func (l *life) readLog(a core.ReadLog) {
	n := 1 + l.w.rng.IntN(min(4, l.w.Ring))
	found, good, left := make([]stored, n), n, n
	for i := range n {
		l.w.chain.read(l, a.Era, a.Index+uint64(i), func(s stored, ok bool) {
			if found[i] = s; !ok {
				good = min(good, i)
			}
			if left--; left == 0 {
				l.log(a.Call, a.Index, found[:good])
			}
		})
	}
}

// log hands cells of the log over, and keeps the entries that the replica takes.
func (l *life) log(call, first uint64, found []stored) {
	cells := make([]core.Cell, len(found))
	for i, s := range found {
		cells[i] = s.cell
	}
	before := l.core.Status().At.Next
	l.core.Log(call, cells)
	for at := before; at < l.core.Status().At.Next; at++ {
		i := at - first
		l.state = append(l.state, then(l.state, l.era(), cells[i].Term, found[i].id))
	}
}

// keep has the replica take entries that a writer hands over, and keeps those that it takes.
func (l *life) keep(p pushed, take func(era, term, from, to uint64)) {
	before := l.core.Status().At.Next
	take(p.era, p.term, p.from, p.from+uint64(len(p.ids))-1)
	for at := before; at < l.core.Status().At.Next; at++ {
		l.state = append(l.state, then(l.state, p.era, p.term, p.ids[at-p.from]))
	}
}

// position of a part of a state in an era.
func position(era uint64, state []item) core.Position {
	p := core.Position{Era: era, Index: uint64(len(state))}
	if len(state) > 0 && state[len(state)-1].era == era {
		p.Term = state[len(state)-1].term
	}
	return p
}

// fetch asks some gateway for its state of the era.
func (l *life) fetch(a core.Fetch) {
	w, g := l.w, l.w.gateways[l.w.rng.IntN(len(l.w.gateways))]
	w.send(l.g, g, func(x *life) {
		if s := x.core.Status(); !s.Entered || s.Record.Active.Number != a.Era || s.Applied < a.Index {
			return
		}
		state := slices.Clip(x.state[:x.applied])
		w.send(g, l.g, func(y *life) {
			if y == l {
				l.arrived = state
				l.core.Fetched(position(a.Era, state))
			}
		})
	})
}
