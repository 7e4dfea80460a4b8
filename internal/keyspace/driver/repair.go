package driver

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

const (
	// recoverWithin bounds a recovery that makes no progress.
	recoverWithin = 10 * time.Second
	// longCall is how long a call to another gateway takes that carries a content. One to a gateway that is away ends before.
	longCall = 5 * time.Second
)

// repair is a recovery that this gateway makes.
type repair struct {
	d       *Driver
	ctx     context.Context // until this recovery ends
	stop    context.CancelFunc
	core    *core.Recovery
	record  core.Record // as it was read or written last
	version uint64      // of it
	content *journal.Arrived
	cell    uint64                  // the version of the cell that was read last
	busy    map[core.Disk]time.Time // disks that are being asked, and since when
	making  bool
	failure error // of the last call that failed, since the last progress; nil: none
	come    core.Progress
	moved   time.Time // when it changed last
	retried time.Time
}

// recover begins a recovery.
func (d *Driver) recover(next []core.Disk) {
	record := d.core.Status().Record
	d.o.Logger.Info("this gateway prepares the next era of the keyspace", "era", record.Newest()+1, "disks", len(next))
	ctx, stop := context.WithCancel(d.ctx)
	d.repair = &repair{
		d: d, ctx: ctx, stop: stop, core: core.Recover(0, record, next), record: record, version: d.version,
		busy: make(map[core.Disk]time.Time), moved: time.Now(), retried: time.Now(),
	}
	if d.first != nil && record.Active.Number == 0 {
		d.repair.core.Begin(d.first.Index())
	}
}

// tick repeats what may have been lost, and gives up.
func (r *repair) tick() {
	d := r.d
	if now := r.core.Progress(); now != r.come {
		r.come, r.moved, r.failure = now, time.Now(), nil
	}
	ended, active := r.core.Done()
	switch {
	case ended || r.stalled():
		if active {
			d.o.Logger.Info("the next era of the keyspace has begun", "era", r.record.Active.Number)
		} else {
			d.o.Logger.Warn("this recovery has begun no era, and another one follows", "because", r.awaits(), "error", r.failure)
		}
		d.repair = nil
		r.stop()
		if r.content != nil {
			if err := r.content.Remove(); err != nil {
				d.o.Logger.Debug("the content of a recovery", "error", err)
			}
		}
	case time.Since(r.retried) > d.o.RecoverAfter:
		r.retried = time.Now()
		r.core.Retry()
	}
}

// awaits says what the recovery waits for.
func (r *repair) awaits() string { return r.d.awaits(r.core.Awaited(), &r.record) }

// stalled reports whether the recovery has made no progress for a while, and nothing is under way that takes long.
func (r *repair) stalled() bool {
	if r.making || time.Since(r.moved) < recoverWithin {
		return false
	}
	for _, since := range r.busy {
		if time.Since(since) > longCall {
			return false
		}
	}
	return true
}

// then does something in the recovery, if it is still under way.
func (r *repair) then(do func()) {
	r.d.post(func() {
		if r.d.repair == r {
			do()
		}
	})
}

// call does something with the network beside the loop.
func (r *repair) call(do func(ctx context.Context)) {
	r.d.beside(func() {
		ctx, cancel := context.WithTimeout(r.d.ctx, callTimeout)
		defer cancel()
		do(ctx)
	})
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
	log := r.d.o.Log
	switch a := action.(type) {
	case core.WriteRecord:
		r.write(a.Record)
	case core.AskDisks:
		for _, disk := range a.Disks {
			r.ask(disk, callTimeout, r.core.Promised, func(ctx context.Context, g Gateway) (core.Disk, core.Answer, error) {
				if g.Disk == r.d.disk {
					return r.d.Ask(ctx, a.Era)
				}
				return r.d.o.Peers.Ask(ctx, g, a.Era)
			})
		}
	case core.InstallBase:
		for _, disk := range a.Disks {
			r.ask(disk, 0, r.core.Installed, func(ctx context.Context, g Gateway) (core.Disk, core.Answer, error) {
				content := r.base()
				if g.Disk == r.d.disk {
					return r.d.Install(ctx, a.Base, content)
				}
				return r.d.o.Peers.Install(ctx, g, a.Base, content)
			})
		}
	case core.Take:
		r.take(a.From)
	case core.ReadCell:
		r.call(func(ctx context.Context) {
			cells, err := log.Cells(ctx, a.Era, a.Index, 1)
			r.then(func() {
				if r.failure = err; err == nil {
					r.cell = cells[0].Version
					r.core.Found(a.Index, cells[0].Cell)
				}
			})
		})
	case core.WriteSeal:
		version := r.cell
		r.call(func(ctx context.Context) {
			sealed, err := log.Seal(ctx, a.Era, a.Index, a.Term, version)
			r.then(func() {
				r.failure = err
				r.core.SealWritten(sealed && err == nil)
			})
		})
	case core.MakeLog:
		r.make(a)
	}
}

// make makes the log of the next era. A ring has many objects, so it takes a while. The logs of recoveries that ended
// early are removed before: the chain may have no room for another one.
func (r *repair) make(a core.MakeLog) {
	if r.making {
		return
	}
	r.making = true
	active := r.record.Active.Number
	r.d.beside(func() {
		r.d.removeLogs(r.ctx, active+1, a.Era)
		err := r.d.o.Log.Make(r.ctx, a.Era, a.First)
		r.d.post(func() {
			r.making, r.failure = false, err
			switch {
			case r.d.repair != r:
			case err != nil:
				r.d.o.Logger.Warn("the log of the next era cannot be made", "era", a.Era, "error", err)
			default:
				r.core.LogMade(true)
			}
		})
	})
}

// base reads the content with which the era begins.
func (r *repair) base() io.Reader {
	switch {
	case r.content != nil:
		return r.content.Content()
	case r.d.first != nil && r.record.Active.Number == 0:
		return r.d.first.Content()
	}
	return bytes.NewReader(journal.Empty())
}

// write replaces the record. Other gateways may have registered meanwhile.
func (r *repair) write(record core.Record) {
	before, version, gateways := r.record, r.version, r.d.state.Gateways
	r.call(func(ctx context.Context) {
		for {
			s := State{Record: record, Gateways: gateways}
			now, swapped, err := r.d.o.Record.Swap(ctx, version, s)
			if err == nil && !swapped {
				var found State
				if found, now, err = r.d.o.Record.Read(ctx); err == nil && same(found.Record, before) && now > version {
					version, gateways = now, found.Gateways
					continue
				}
			}
			ok := err == nil && swapped
			r.d.post(func() {
				if ok {
					r.d.recorded(s, now)
				}
				if r.d.repair != r {
					return
				}
				r.record, r.version = record, now
				r.core.Wrote(ok)
				if _, active := r.core.Done(); active {
					r.d.beside(func() { r.d.removeLogs(r.d.ctx, before.Active.Number, record.Active.Number) })
				}
			})
			return
		}
	})
}

func same(a, b core.Record) bool {
	return a.Recovering == b.Recovering && slices.Equal(a.Next, b.Next) && a.Active.Number == b.Active.Number &&
		a.Active.Base == b.Active.Base && slices.Equal(a.Active.Set, b.Active.Set)
}

// removeLogs removes the logs of the eras from one on to before another, which are not active any more or never were.
func (d *Driver) removeLogs(ctx context.Context, from, to uint64) {
	for era := max(from, 1); era < to && ctx.Err() == nil; era++ {
		if err := d.o.Log.Remove(ctx, era); err != nil {
			d.o.Logger.Debug("the log of an era cannot be removed", "era", era, "error", err)
		}
	}
}

// begin returns the gateway of a disk that is asked from now on; ok is false if there is none, or it is being asked.
func (r *repair) begin(disk core.Disk) (g Gateway, ok bool) {
	i := slices.IndexFunc(r.d.state.Gateways, func(g Gateway) bool { return g.Disk.Name == disk.Name })
	if _, asked := r.busy[disk]; i < 0 || asked {
		return g, false
	}
	r.busy[disk] = time.Now()
	return r.d.state.Gateways[i], true
}

// ask asks the gateway of a disk, unless it is being asked, and hands its answer over. Without a time the call takes as
// long as it takes.
func (r *repair) ask(disk core.Disk, within time.Duration, answer func(core.Disk, core.Answer),
	request func(context.Context, Gateway) (core.Disk, core.Answer, error),
) {
	g, ok := r.begin(disk)
	if !ok {
		return
	}
	r.d.beside(func() {
		ctx, cancel := context.WithCancel(r.d.ctx)
		if within > 0 {
			ctx, cancel = context.WithTimeout(r.d.ctx, within)
		}
		defer cancel()
		from, a, err := request(ctx, g)
		r.d.post(func() {
			if delete(r.busy, disk); r.d.repair != r {
				return
			}
			if r.failure = err; err != nil {
				r.d.o.Logger.Debug("a gateway does not answer a recovery", "gateway", g.Address, "error", err)
				return
			}
			answer(from, a)
		})
	})
}

// take takes the content of a disk.
func (r *repair) take(from core.Disk) {
	d := r.d
	g, ok := r.begin(from)
	if !ok {
		return
	}
	d.beside(func() {
		arrived, last, err := d.receive(d.ctx, func(ctx context.Context) (Content, error) {
			if g.Disk == d.disk {
				return d.Take(ctx)
			}
			return d.o.Peers.Take(ctx, g)
		})
		d.post(func() {
			delete(r.busy, from)
			if r.failure = err; err != nil {
				d.o.Logger.Debug("a disk's content cannot be taken", "gateway", g.Address, "error", err)
				return
			}
			if d.repair == r && r.content == nil && r.core.Taken(last) {
				r.content = arrived
				return
			}
			if err := arrived.Remove(); err != nil {
				d.o.Logger.Debug("a content that is not needed", "error", err)
			}
		})
	})
}
