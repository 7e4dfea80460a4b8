package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

const (
	// readAhead is the most cells that are read at once.
	readAhead = 128
	// remindAfter is how long what counts waits for entries with which the others are told.
	remindAfter = time.Millisecond
	// callTimeout bounds calls without a content.
	callTimeout = 2 * time.Second
	// retryAfter is the pause after a failure.
	retryAfter = 200 * time.Millisecond
)

// perform does what the replica asks for.
func (d *Driver) perform(action core.Action) (err error) {
	switch a := action.(type) {
	case core.ReadLog:
		n := d.ahead
		d.beside(func() { d.readLog(a, n) })
	case core.Append:
		err = d.journal.Append(d.tail[a.From-1-d.base : a.To-d.base])
		d.stored(a.Seq)
	case core.Mark:
		err = d.journal.Mark(a.Position)
		d.stored(a.Seq)
	case core.Vow:
		err = d.journal.Vow(a.Era)
		d.stored(a.Seq)
	case core.Store:
		d.journal.Store(a.Position, d.taken)
		d.taken = nil
		d.stored(a.Seq)
	case core.Report:
		d.tell(a)
	case core.Remind:
		d.reminder.Reset(remindAfter)
	case core.Fetch:
		d.fetch(a)
	case core.Enter:
		err = d.enter(a)
	case core.Advance:
		err = d.advance(a.Index)
	case core.Ready:
		for _, id := range a.Reads {
			if ready := d.reads[id]; ready != nil {
				close(ready)
				delete(d.reads, id)
			}
		}
	case core.Answer:
		if answer := d.calls[a.Call]; answer != nil {
			answer <- a
			delete(d.calls, a.Call)
		}
	}
	return err
}

// stored has a write synced.
func (d *Driver) stored(seq uint64) {
	d.seq = seq
	d.sync()
}

// sync syncs what is written now, and then what is written meanwhile.
func (d *Driver) sync() {
	if d.unsynced = true; !d.flushing {
		d.flush(d.journal.Flush)
	}
}

func (d *Driver) flush(flush func() error) {
	d.flushing, d.unsynced = true, false
	seq := d.seq
	d.beside(func() {
		err := flush()
		d.post(func() {
			d.flushing = false
			if err != nil {
				d.fail(err)
				return
			}
			d.core.Synced(seq)
			if d.unsynced {
				d.flush(d.journal.Flush)
			}
		})
	})
}

// readLog reads cells of the log.
func (d *Driver) readLog(a core.ReadLog, n int) {
	ctx, cancel := context.WithTimeout(d.ctx, callTimeout)
	defer cancel()
	cells, err := d.o.Log.Cells(ctx, a.Era, a.Index, n)
	if err != nil {
		cells = nil
		if d.ctx.Err() == nil {
			d.o.Logger.Debug("the log cannot be read", "era", a.Era, "error", err)
		}
	}
	d.post(func() { d.log(a, cells, n) })
}

// log hands cells over, and keeps the entries that the replica takes.
func (d *Driver) log(a core.ReadLog, cells []Cell, n int) {
	plain := make([]core.Cell, len(cells))
	for i := range cells {
		plain[i] = cells[i].Cell
	}
	if len(cells) > 0 && !cells[0].Lost {
		d.answered = time.Now()
		if d.o.Heard != nil {
			d.o.Heard()
		}
	}
	took := d.keep(func() { d.core.Log(a.Call, plain) }, func(index uint64) journal.Entry {
		c := &cells[index-a.Index]
		return journal.Entry{Term: c.Term, Payload: c.Payload}
	})
	if d.ahead = min(max(2*took, 1), readAhead); took < n {
		d.ahead = min(took+1, readAhead)
	}
}

// take hands entries over that a writer has pushed, and keeps those that the replica takes.
func (d *Driver) take(p *Pushed, take func(era, term, from, to uint64)) {
	d.keep(func() { take(p.Era, p.Term, p.First, p.Last()) }, func(index uint64) journal.Entry {
		return journal.Entry{Term: p.Term, Payload: p.Payloads[index-p.First]}
	})
}

// keep keeps the entries that the replica takes with an event, and returns their number.
func (d *Driver) keep(event func(), entry func(index uint64) journal.Entry) int {
	before := d.core.Status().At.Next
	event()
	next := d.core.Status().At.Next
	for index := before; index < next; index++ {
		d.tail = append(d.tail, entry(index))
	}
	return int(next - before)
}

// tell tells other gateways what the own disk has.
func (d *Driver) tell(r core.Report) {
	for _, g := range d.others() {
		if r.To == (core.Disk{}) || r.To == g.Disk {
			d.o.Peers.Report(g, d.disk, r)
		}
	}
}

// poll looks for what was missed, and repeats what others may have missed.
func (d *Driver) poll() {
	d.core.Poll()
	d.core.Repeat()
}

// enter goes on from what the disk has.
func (d *Driver) enter(a core.Enter) error {
	last := d.journal.Stored().Last.Index
	if last < d.applied {
		return fmt.Errorf("era %d begins with entry %d, and this gateway has shown %d: acknowledged writes are lost", a.Era, last, d.applied)
	}
	index, state, err := d.journal.State()
	if err != nil {
		return err
	}
	if index > d.applied {
		if err := d.o.Machine.Restore(index, state); err != nil {
			return fmt.Errorf("the state of entry %d: %w", index, err)
		}
		d.applied = index
	}
	d.o.Machine.Enter(a.Era)
	d.base, d.tail = d.applied, append([]journal.Entry(nil), d.journal.Entries(d.applied, last)...)
	d.o.Logger.Info("this gateway follows an era of the keyspace", "era", a.Era, "entry", last)
	return nil
}

// advance applies the entries up to an index.
func (d *Driver) advance(to uint64) error {
	if to <= d.applied {
		return nil
	}
	from := d.applied
	entries := d.tail[from-d.base : to-d.base]
	if err := d.o.Machine.Apply(from+1, entries); err != nil {
		return fmt.Errorf("entry %d of the log: %w", from+1, err)
	}
	d.applied = to
	return nil
}

// trim forgets the entries that are applied and written. A checkpoint needs those behind its state.
func (d *Driver) trim() {
	if n := d.applied - d.base; n > d.o.KeepEntries && uint64(len(d.tail)) < 2*n {
		d.base, d.tail = d.applied, append([]journal.Entry(nil), d.tail[n:]...)
	}
	to, held := min(d.applied, d.o.Machine.Whole()), uint64(d.journal.Held())
	if d.saving {
		to = min(to, d.saved)
	}
	if first := d.journal.Stored().Last.Index - held; to > first+d.o.KeepEntries && 2*(to-first) > held {
		d.journal.Forget(to)
	}
}

// paused reports whether something has failed a moment ago.
func (d *Driver) paused(what string) bool { return time.Now().Before(d.again[what]) }

func (d *Driver) pause(what string) { d.again[what] = time.Now().Add(retryAfter) }

// others are the other gateways.
func (d *Driver) others() (all []Gateway) {
	for _, g := range d.state.Gateways {
		if g.Disk.Name != d.disk.Name {
			all = append(all, g)
		}
	}
	return all
}

// fetch gets the state from another gateway.
func (d *Driver) fetch(a core.Fetch) {
	others := d.others()
	if d.fetching || d.paused("fetch") || len(others) == 0 {
		return
	}
	d.fetching = true
	from := others[rand.IntN(len(others))]
	d.beside(func() {
		arrived, last, err := d.receive(d.ctx, func(ctx context.Context) (Content, error) {
			return d.o.Peers.Fetch(ctx, from, a.Era, a.Index)
		})
		d.post(func() {
			d.fetching = false
			if err != nil {
				d.pause("fetch")
				d.o.Logger.Debug("the state cannot be fetched", "from", from.Address, "error", err)
				return
			}
			d.o.Logger.Info("fetched the keyspace's state", "from", from.Address, "entry", last.Index)
			d.offer(arrived, func() { d.core.Fetched(last) })
		})
	})
}

// receive takes a content from another gateway.
func (d *Driver) receive(ctx context.Context, call func(context.Context) (Content, error)) (*journal.Arrived, core.Position, error) {
	c, err := call(ctx)
	if err != nil {
		return nil, c.Last, err
	}
	arrived, err := d.journal.Receive(c.Data)
	_ = c.Data.Close() // it was read to its end or failed
	if err == nil && arrived.Index() != c.Last.Index {
		_ = arrived.Remove() // it is refused for another reason
		err = fmt.Errorf("%w: it ends with entry %d, not %d", journal.ErrContent, arrived.Index(), c.Last.Index)
	}
	return arrived, c.Last, err
}

// offer gives the replica a content, and removes it if it is not stored.
func (d *Driver) offer(a *journal.Arrived, do func()) {
	d.taken = a
	do()
	d.settle()
	if d.taken != nil {
		d.taken = nil
		if err := a.Remove(); err != nil {
			d.o.Logger.Debug("a content that is not needed", "error", err)
		}
	}
}

// checkpoint saves the state, if the log on disk is long.
func (d *Driver) checkpoint() {
	if d.trim(); d.saving || !d.journal.Due(d.o.CheckpointBytes) || d.paused("checkpoint") {
		return
	}
	index, write, err := d.o.Machine.Snapshot()
	if err != nil {
		d.failed("checkpoint", err)
		return
	}
	d.saving, d.saved = true, index
	d.beside(func() {
		c, err := d.journal.Prepare(index, write)
		if !d.post(func() {
			d.saving = false
			if err == nil {
				err = d.journal.Checkpoint(c)
			}
			if err != nil {
				d.failed("checkpoint", err)
				return
			}
			d.sync()
		}) && err == nil {
			_ = c.Remove() // the next start does it otherwise
		}
	})
}

func (d *Driver) failed(what string, err error) {
	d.pause(what)
	d.o.Logger.Warn("no "+what, "error", err)
}
