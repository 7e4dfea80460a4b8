package keyspacesim

import (
	"slices"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// repair is a recovery in a process.
type repair struct {
	l       *life
	core    *core.Recovery
	version uint64 // of the record that it has read or written last
	state   []item // taken
	seal    uint64 // the version of the cell that was read last
	began   uint64
	retried uint64
}

// mend begins a recovery if one is due for long, and repeats or gives up the one that is under way.
func (l *life) mend() {
	w := l.w
	if r := l.repair; r != nil {
		ended, active := r.core.Done()
		switch {
		case ended:
			w.note("%v: recovery has ended, active %v", l, active)
			l.repair = nil
		case w.Now > r.began+8*uint64(w.Patience):
			w.note("%v gives its recovery up", l)
			l.repair = nil
		case w.Now > r.retried+uint64(w.Patience)/4:
			r.retried = w.Now
			r.core.Retry()
		}
		return
	}
	s := l.core.Status()
	if l.version == w.version && !s.Broken && s.Record.Recovering == 0 && s.Record.Active.Number > 0 &&
		len(s.Record.Lost) == 0 {
		l.idle = 0
		return
	}
	if l.idle == 0 {
		l.idle = w.Now + w.exp(w.Repair+4*w.SyncTime) + uint64(l.g.name)*uint64(w.Repair)
	}
	if w.Now >= l.idle {
		l.idle = 0
		l.recover()
	}
}

// recover begins a recovery with a set that is drawn.
func (l *life) recover() {
	w := l.w
	if l.repair != nil {
		return
	}
	var next []core.Disk
	for _, i := range w.rng.Perm(len(w.gateways))[:w.SetSize] {
		next = append(next, w.gateways[i].disk.Disk)
	}
	w.result.Recoveries++
	s := l.core.Status()
	l.repair = &repair{
		l: l, core: core.Recover(w.Without, s.Record, next), version: l.version, began: w.Now, retried: w.Now,
	}
	w.note("%v begins recovery %d with %v", l, s.Record.Newest()+1, next)
}

// then does something in the recovery, if it is still under way.
func (r *repair) then(do func()) {
	if !r.l.dead && r.l.repair == r {
		do()
	}
}

func (r *repair) perform() {
	for actions := r.core.Actions(); len(actions) > 0; actions = r.core.Actions() {
		for _, a := range actions {
			r.act(a)
		}
	}
}

// act does what the recovery asks for.
func (r *repair) act(action core.Action) {
	l, w := r.l, r.l.w
	switch a := action.(type) {
	case core.WriteRecord:
		w.changeRecord(l, r.version, a.Record, func(ok bool) {
			r.version++
			r.then(func() { r.core.Wrote(ok) })
		})
	case core.AskDisks:
		for _, d := range a.Disks {
			r.ask(d, r.core.Promised, func(x *life, call uint64) { x.core.Ask(call, a.Era) })
		}
	case core.InstallBase:
		state := slices.Clip(r.state[:a.Base.Index])
		for _, d := range a.Disks {
			r.ask(d, r.core.Installed, func(x *life, call uint64) {
				x.arrived = state
				x.core.Install(call, a.Base)
			})
		}
	case core.Take:
		g := w.gateways[a.From.Name-1]
		w.send(l.g, g, func(x *life) {
			c := g.disk.now
			w.send(g, l.g, func(*life) {
				r.then(func() {
					if r.core.Taken(c.Last) {
						r.state = slices.Clip(c.items)
					}
				})
			})
		})
	case core.ReadCell:
		w.chain.read(l, a.Era, a.Index, func(found stored, ok bool) {
			r.then(func() {
				if ok {
					r.seal = found.version
					r.core.Found(a.Index, found.cell)
				}
			})
		})
	case core.WriteSeal:
		seal := core.Cell{Index: a.Index, Term: a.Term, Seal: true}
		w.chain.write(l, a.Era, a.Index, r.seal, seal, 0, func(swapped, ok bool) {
			r.then(func() { r.core.SealWritten(swapped && ok) })
		})
	case core.MakeLog:
		w.chain.make(l, a.Era, func(ok bool) { r.then(func() { r.core.LogMade(ok) }) })
	}
}

// ask asks the gateway of a disk, and hands its answer over.
func (r *repair) ask(d core.Disk, answer func(core.Disk, core.Answer), request func(x *life, call uint64)) {
	l, w := r.l, r.l.w
	g := w.gateways[d.Name-1]
	w.send(l.g, g, func(x *life) {
		call, from := w.id(), g.disk.Disk
		x.answers[call] = func(a core.Answer) {
			w.send(g, l.g, func(*life) { r.then(func() { answer(from, a) }) })
		}
		request(x, call)
	})
}
