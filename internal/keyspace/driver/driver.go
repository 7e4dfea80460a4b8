package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

// Options configure a driver.
type Options struct {
	Dir      string // the data directory
	Keyspace string
	ID       uint64 // of the keyspace
	Member   string // the gateway's name
	Address  string // at which other gateways reach it
	Record   Record
	Log      Log
	Peers    Peers
	Machine  Machine
	Heard    func() // called when the chain has answered; it does not wait. nil: nothing
	Logger   *slog.Logger
	// Begin writes the state with which the first era begins, if this gateway makes that era. nil: nothing.
	Begin func(io.Writer) error

	// PollEvery is the time between looks at the log's end that nothing asked for, and between reports to all gateways.
	// Gateways tell each other at once, so these find only what was lost on the way. 0: 100 ms.
	PollEvery       time.Duration
	RecoverAfter    time.Duration // how long a recovery is due before one begins; 0: 300 ms
	ReplaceAfter    time.Duration // how long a disk is silent before another takes its place; 0: a minute
	CheckpointBytes int64         // of the log on disk after which a checkpoint follows; 0: 64 MiB
	KeepEntries     uint64        // applied entries that stay in memory, about; 0: 1024
}

// Driver is a gateway of a keyspace with a disk.
type Driver struct {
	o       Options
	journal *journal.Journal
	disk    core.Disk
	core    *core.Replica
	events  chan func()
	ended   chan struct{} // closed when Run returns
	ctx     context.Context
	fail    context.CancelCauseFunc
	working sync.WaitGroup
	began   time.Time // Run
	born    time.Time
	touched atomic.Int64 // when a content of a recoverer came in last, since born

	state   State // as the record has it
	version uint64
	known   bool // the record was read

	answered time.Time // the chain, with cells of the log

	applied uint64 // by the machine
	tail    []journal.Entry
	base    uint64 // the index of the entry before tail
	ahead   int    // how many cells are read at once
	taken   *journal.Arrived
	first   *journal.Arrived // the content of Options.Begin

	calls    map[uint64]chan core.Answer
	reads    map[uint64]chan struct{}
	seq      uint64 // of the last write
	flushing bool
	unsynced bool // there are writes that are not being flushed

	fetching, saving, registering bool
	saved                         uint64               // the entry whose state is being saved, if saving
	again                         map[string]time.Time // when something that failed may be tried again
	reminder                      *time.Timer          // of what counts
	heard                         map[core.Disk]time.Time
	repair                        *repair
	due                           time.Time // when a recovery begins; zero: none is due

	mu      sync.Mutex
	status  Status
	waiters map[*waiter]struct{}
}

// waiter waits for a condition.
type waiter struct {
	until func(Status) bool
	met   chan Status // of length 1
}

// maxEvents wait for the loop without their senders.
const maxEvents = 64

// Status is the state of a driver.
type Status struct {
	core.Status
	Counted  uint64
	Gateways []Gateway
}

// Open opens the data directory. A damaged one counts as lost: it is set aside, and this gateway has another disk.
func Open(o Options) (*Driver, error) {
	set(&o.PollEvery, 100*time.Millisecond)
	set(&o.RecoverAfter, 300*time.Millisecond)
	set(&o.ReplaceAfter, time.Minute)
	set(&o.CheckpointBytes, 64<<20)
	set(&o.KeepEntries, 1024)
	j, err := journal.Open(o.Dir, o.Keyspace, o.ID, o.Member)
	if errors.Is(err, journal.ErrDamaged) {
		folder, failed := journal.SetAside(o.Dir)
		if failed != nil {
			return nil, errors.Join(err, failed)
		}
		o.Logger.Error("the disk counts as lost, and this gateway gets the keyspace from the others", "error", err, "files", folder)
		j, err = journal.Open(o.Dir, o.Keyspace, o.ID, o.Member)
	}
	if err != nil {
		return nil, err
	}
	d := &Driver{
		o: o, journal: j, disk: j.Disk(), core: core.New(core.Options{Disk: j.Disk()}, j.Stored()),
		events: make(chan func(), maxEvents), ended: make(chan struct{}), ahead: 1, calls: make(map[uint64]chan core.Answer),
		reads: make(map[uint64]chan struct{}), again: make(map[string]time.Time), heard: make(map[core.Disk]time.Time),
		waiters: make(map[*waiter]struct{}), born: time.Now(),
	}
	if o.Begin != nil {
		content := journal.First(o.Begin)
		d.first, err = j.Receive(content)
		if err = errors.Join(err, content.Close()); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return d, nil
}

func set[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

// Disk is this gateway's disk.
func (d *Driver) Disk() core.Disk { return d.disk }

// Run runs the driver until ctx ends. An error says why it cannot go on.
func (d *Driver) Run(ctx context.Context) (err error) {
	defer func() {
		close(d.ended)
		d.working.Wait()
		if d.first != nil {
			err = errors.Join(err, d.first.Remove())
		}
		err = errors.Join(err, d.journal.Close())
	}()
	d.ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	if err := d.restore(); err != nil {
		return err
	}
	d.began = time.Now()
	d.reminder = time.NewTimer(remindAfter)
	defer d.reminder.Stop()
	d.beside(d.watch)
	d.flush(d.journal.Sync)
	poll := time.NewTicker(d.o.PollEvery)
	defer poll.Stop()
	slow := time.NewTicker(d.o.RecoverAfter / 8)
	defer slow.Stop()
	for {
		select {
		case <-d.ctx.Done():
			if ctx.Err() != nil {
				return nil
			}
			return context.Cause(d.ctx)
		case do := <-d.events:
			do()
		case <-d.reminder.C:
			d.core.Remind()
		case <-poll.C:
			d.poll()
		case <-slow.C:
			d.tick()
		}
		d.settle()
	}
}

// beside runs something beside the loop. Run waits for it.
func (d *Driver) beside(do func()) { d.working.Go(do) }

// settle performs what follows from an event.
func (d *Driver) settle() {
	for {
		actions := d.core.Actions()
		if d.repair != nil {
			d.repair.perform()
		}
		if len(actions) == 0 {
			break
		}
		for _, a := range actions {
			if err := d.perform(a); err != nil {
				d.fail(err)
				return
			}
		}
	}
	d.publish()
	d.checkpoint()
}

// post has the loop do something, unless it has ended.
func (d *Driver) post(do func()) bool {
	select {
	case d.events <- do:
		return true
	case <-d.ended:
		return false
	}
}

// publish makes the state known to those who wait for it.
func (d *Driver) publish() {
	s := Status{d.core.Status(), d.core.Counted(), d.state.Gateways}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := &d.status
	if s.At == old.At && s.Counted == old.Counted && s.Applied == old.Applied && s.Entered == old.Entered &&
		s.Broken == old.Broken && s.Record.Active.Number == old.Record.Active.Number &&
		s.Record.Recovering == old.Record.Recovering && slices.Equal(s.Gateways, old.Gateways) {
		return
	}
	d.status = s
	for w := range d.waiters {
		if w.until(s) {
			w.met <- s
			delete(d.waiters, w)
		}
	}
}

// Status returns the state.
func (d *Driver) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

// ErrEnded: the driver has ended.
var ErrEnded = errors.New("the keyspace's gateway has ended")

// Wait waits until a condition holds. It must depend on nothing else, and not call the driver.
func (d *Driver) Wait(ctx context.Context, until func(Status) bool) (Status, error) {
	w := &waiter{until, make(chan Status, 1)}
	d.mu.Lock()
	s := d.status
	if until(s) {
		d.mu.Unlock()
		return s, nil
	}
	d.waiters[w] = struct{}{}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiters, w)
	}()
	select {
	case s = <-w.met:
		return s, nil
	case <-d.ended:
		return d.Status(), ErrEnded
	case <-ctx.Done():
		return d.Status(), context.Cause(ctx)
	}
}

// Read waits until the machine shows everything that was acknowledged before the call.
func (d *Driver) Read(ctx context.Context) error {
	id, ready := rand.Uint64(), make(chan struct{})
	if !d.post(func() {
		d.reads[id] = ready
		d.core.Read(id)
	}) {
		return ErrEnded
	}
	select {
	case <-ready:
		return nil
	case <-d.ended:
		return ErrEnded
	case <-ctx.Done():
		d.post(func() { delete(d.reads, id) })
		return context.Cause(ctx)
	}
}

// restore begins with what the disk has.
func (d *Driver) restore() error {
	index, state, err := d.journal.State()
	if err != nil {
		return err
	}
	if err := d.o.Machine.Restore(index, state); err != nil {
		return fmt.Errorf("the state of entry %d: %w", index, err)
	}
	d.applied, d.base = index, index
	return nil
}
