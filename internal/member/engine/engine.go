// Package engine drives the decisions of [core] with the I/O of one etcd server: its log, its clock, and the objects of all
// members in the chain. An [Engine] is the [member.Register] of the server's front.
package engine

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver"

	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/platform/workers"
)

// Options say where the server and the chain are.
type Options struct {
	Server *etcdserver.EtcdServer // which is ready
	Chain  objects.Chain
	Nearby objects.Nearby // nil: all reads of the chain use the network
	// Off: the member stays out of fast reads. It still waits for those of others that may know it as a member.
	Off bool
	TTL time.Duration // of a session; 0: DefaultTTL
	Log *slog.Logger
	// Version is that of the program, which the member names to the others. Empty: it names none.
	Version string
	// Without is a rule that tests switch off.
	Without core.Rule
}

// DefaultTTL is how long writes wait, once, for a member that is silent or for a chain that is away.
const DefaultTTL = 3 * time.Second

const (
	// every is how often the machine is called when nothing happens, and how long a revision that nobody waits for is left to
	// other members.
	every = 50 * time.Millisecond
	// sampleEvery is the least time between two looks at the members' records.
	sampleEvery = 5 * time.Millisecond
	// patience is how long something waits for a push before the member leaves the view.
	patience = 500 * time.Millisecond
	// maxResting workers wait for a bundle of reads: one is read while the reads of the one before are answered.
	maxResting = 2
)

// Engine is a member that takes part, or wants to.
type Engine struct {
	o       Options
	ctx     context.Context // until the server stops, or Close
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	records chan core.Record // to propose
	pushes  atomic.Uint64
	nearby  atomic.Uint64 // objects read from the memory of a node on this machine
	far     atomic.Uint64 // objects read through the network
	keys    atomic.Pointer[keys]
	bundles *workers.Pool[core.ReadObjects]

	mu      sync.Mutex // of all below
	machine *core.Machine
	last    uint64
	reads   map[uint64]func(core.Point, member.Reason)
	arrived arrived
	waiting map[uint64]chan struct{} // reveals and leaves
	off     uint64                   // the leave of SetOff; 0: none
	phase   core.Status              // as logged
}

// arrived are reads and reveals that the machine does not know yet.
type arrived struct {
	reads   []uint64
	reveals []reveal
}

// reveal is a point that is to be shown.
type reveal struct {
	id    uint64
	point core.Point
}

func (a *arrived) empty() bool { return len(a.reads)+len(a.reveals) == 0 }

// Start begins to take part.
func Start(o Options) *Engine {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	e := &Engine{
		o: o, records: make(chan core.Record, 16),
		reads: make(map[uint64]func(core.Point, member.Reason)), waiting: make(map[uint64]chan struct{}),
		machine: core.New(core.Options{
			Member: uint64(o.Server.MemberID()), Life: newLife(), TTL: int64(o.TTL), Every: int64(every),
			Patience: int64(patience), Rest: int64(o.TTL), Without: o.Without,
		}),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.bundles = workers.New(maxResting, e.ctx.Done(), e.readObjects)
	if o.Off {
		e.do(func(now int64) { e.machine.Want(now, false) })
	}
	e.sample()
	e.tasks.Go(e.propose)
	e.tasks.Go(e.follow)
	e.tasks.Go(e.tick)
	e.tasks.Go(func() {
		select {
		case <-o.Server.StopNotify():
			e.stop()
		case <-e.ctx.Done():
		}
	})
	return e
}

// Close ends all work, without leaving.
func (e *Engine) Close() {
	e.stop()
	e.tasks.Wait()
}

// do calls the machine, and does what it wants done.
func (e *Engine) do(event func(now int64)) {
	e.mu.Lock()
	event(bootTime())
	var later []core.Action
	var answers []answer
	for _, action := range e.machine.Actions() {
		switch a := action.(type) {
		case core.Ready:
			answers = append(answers, e.take(a.Reads, a.Point, member.None))
		case core.Slow:
			answers = append(answers, e.take(a.Reads, core.Point{}, member.ReasonOf(a.Why)))
		case core.Show:
			e.end(a.Reveals)
		case core.Left:
			e.end(a.Leaves)
		default:
			later = append(later, action)
		}
	}
	e.mu.Unlock()
	for _, action := range later {
		e.perform(action)
	}
	for _, a := range answers {
		for _, then := range a.reads {
			then(a.point, a.slow)
		}
	}
}

// answer is the answer to reads.
type answer struct {
	reads []func(core.Point, member.Reason)
	point core.Point
	slow  member.Reason
}

// take takes reads that have an answer. The lock is held.
func (e *Engine) take(ids []uint64, p core.Point, slow member.Reason) answer {
	a := answer{make([]func(core.Point, member.Reason), len(ids)), p, slow}
	for i, id := range ids {
		a.reads[i] = e.reads[id]
		delete(e.reads, id)
	}
	return a
}

// end ends what waits. The lock is held.
func (e *Engine) end(ids []uint64) {
	for _, id := range ids {
		if c := e.waiting[id]; c != nil {
			delete(e.waiting, id)
			close(c)
		}
	}
}

// perform begins to do what the machine wants done.
func (e *Engine) perform(action core.Action) {
	switch a := action.(type) {
	case core.Propose:
		select {
		case e.records <- a.Record:
		default: // the machine proposes again
		}
	case core.Renew:
		go e.renew()
	case core.Look:
		go e.sample()
	case core.ReadObjects:
		e.bundles.Go(a) // whose reads are answered there, by etcd's handlers, which need more stack
	case core.WriteObject:
		go e.writeObject(a)
	}
}

// ReadPoint implements [member.Register].
func (e *Engine) ReadPoint(then func(core.Point, member.Reason)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.reads[e.last] = then
	e.gatherLater()
	e.arrived.reads = append(e.arrived.reads, e.last)
}

// gatherLater has the machine told of what arrives next. The lock is held.
func (e *Engine) gatherLater() {
	if e.arrived.empty() {
		go e.gather()
	}
}

// gather tells the machine of the reads and reveals that have arrived. It first lets other goroutines run: the busier the
// process is, the more reads share a bundle, and the more reveals a push.
func (e *Engine) gather() {
	runtime.Gosched()
	e.do(func(now int64) {
		if len(e.arrived.reveals) > 0 {
			e.machine.Advance(member.Applied(e.o.Server))
		}
		for _, r := range e.arrived.reveals {
			e.machine.Reveal(now, r.id, r.point, core.Local)
		}
		for _, id := range e.arrived.reads {
			e.machine.Read(now, id)
		}
		e.arrived.reads, e.arrived.reveals = e.arrived.reads[:0], e.arrived.reveals[:0]
	})
}

// Reveal implements [member.Register].
func (e *Engine) Reveal(ctx context.Context, p core.Point) error {
	e.mu.Lock()
	if e.machine.MayShow(p) {
		e.mu.Unlock()
		return nil
	}
	e.last++
	id, done := e.last, make(chan struct{})
	e.waiting[id] = done
	e.gatherLater()
	e.arrived.reveals = append(e.arrived.reveals, reveal{id, p})
	e.mu.Unlock()
	return e.wait(ctx, id, done)
}

// Pause implements [member.Register].
func (e *Engine) Pause(ctx context.Context) (resume func(), err error) {
	var leave uint64
	again := func() {
		e.sample() // the change of members that this process has applied
		e.do(func(now int64) { e.machine.Return(now, leave) })
	}
	err = e.await(ctx, func(now int64, id uint64) {
		leave = id
		e.machine.Leave(now, id)
	})
	if err != nil {
		again()
		return nil, err
	}
	return again, nil
}

// await begins something that the machine ends.
func (e *Engine) await(ctx context.Context, begin func(now int64, id uint64)) error {
	done, id := make(chan struct{}), uint64(0)
	e.do(func(now int64) {
		e.last++
		id = e.last
		e.waiting[id] = done
		begin(now, id)
	})
	return e.wait(ctx, id, done)
}

// wait returns when the machine has ended what waits.
func (e *Engine) wait(ctx context.Context, id uint64, done <-chan struct{}) (err error) {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.ctx.Done():
		err = rpctypes.ErrGRPCStopped
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, id)
	return err
}

// SetOff has this member leave fast reads, which ends them at all members, or return. It returns when nobody reads fast any more.
func (e *Engine) SetOff(ctx context.Context, off bool) error {
	e.mu.Lock()
	before := e.off
	e.mu.Unlock()
	switch {
	case !off && before == 0:
		e.do(func(now int64) { e.machine.Want(now, true) })
		return nil
	case !off:
		e.do(func(now int64) {
			e.off = 0
			e.machine.Want(now, true)
			e.machine.Return(now, before)
		})
		return nil
	}
	return e.await(ctx, func(now int64, id uint64) {
		if e.off != 0 {
			e.machine.Return(now, e.off)
		}
		e.off = id
		e.machine.Want(now, false)
		e.machine.Leave(now, id)
	})
}

// Status is what operators see.
func (e *Engine) Status() core.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Status(bootTime())
}

// Pushes returns how often this member has written its object in the chain.
func (e *Engine) Pushes() uint64 { return e.pushes.Load() }

// Objects returns how many objects this member has read from the memory of a node on this machine, and through the network.
func (e *Engine) Objects() (nearby, far uint64) { return e.nearby.Load(), e.far.Load() }
