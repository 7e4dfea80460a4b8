package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Store runs one operation. It fills in the result only. If the answer leaves the outcome open, it
// is Unknown.
type Store interface {
	Do(ctx context.Context, op *Op) Result
}

// Workload describes the clients' operations: all kinds, on few keys at a time.
type Workload struct {
	Clients int
	Keys    int // keys in use at the same time
	// approximate operations per key before another key replaces it: long histories are slow to check
	KeyOps int
	For    time.Duration // time during which new operations start
	Seed   uint64        // of each client's choices; it does not determine their interleaving
	Prefix string        // of all keys, which have to be new to the store
	Report func(ops int) // called about once a second; may be nil
	// Pause is a client's mean pause before its next operation.
	Pause time.Duration
	// Closed, if set, receives the growing history: all operations on some keys once no client
	// works on them any more. Run returns nothing then. Calls are sequential, and clients do not
	// wait for them.
	Closed func(ops []Op)
}

// Run runs the workload, each client on its store, and returns the history. It ends early with ctx.
func (w *Workload) Run(ctx context.Context, stores []Store) []Op {
	ctx, cancel := context.WithTimeout(ctx, w.For)
	defer cancel()
	var wait sync.WaitGroup
	var started atomic.Int64
	keep := newCollector(w.Clients)
	begin := time.Now()
	for i := range w.Clients {
		c := &worker{w: w, index: i, started: &started, begin: begin, known: make(map[string]uint64), keep: keep}
		c.rng = rand.New(rand.NewPCG(w.Seed, uint64(i)))
		wait.Go(func() { c.run(ctx, stores[i%len(stores)]) })
	}
	if w.Report != nil {
		wait.Go(func() { w.report(ctx, &started) })
	}
	done := make(chan struct{})
	go func() {
		wait.Wait()
		close(done)
	}()
	var all []Op
	closed := w.Closed
	if closed == nil {
		closed = func(ops []Op) { all = append(all, ops...) }
	}
	for running := true; running; {
		select {
		case <-keep.advanced:
		case <-done:
			running = false
		}
		for _, ops := range keep.take() {
			closed(ops)
		}
	}
	return all
}

func (w *Workload) report(ctx context.Context, started *atomic.Int64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.Report(int(started.Load()))
		}
	}
}

// worker is one client.
type worker struct {
	w       *Workload
	index   int
	rng     *rand.Rand
	begin   time.Time
	started *atomic.Int64     // operations of all workers
	known   map[string]uint64 // newest version of each key that this worker has seen
	number  uint32            // number of its next value
	keep    *collector
}

func (c *worker) run(ctx context.Context, store Store) {
	defer c.keep.leave(c.index)
	for c.pause(ctx) {
		op, keySet := c.choose()
		c.keep.enter(c.index, keySet)
		op.Call = int64(time.Since(c.begin))
		// Complete a started operation, so that its outcome is known.
		op.Result = store.Do(context.WithoutCancel(ctx), &op)
		op.Return = int64(time.Since(c.begin))
		if op.Outcome != Unknown && op.Version != 0 {
			c.known[op.Key] = op.Version
		}
		c.keep.add(keySet, op)
	}
}

// pause waits before the next operation and reports whether there is one.
func (c *worker) pause(ctx context.Context) bool {
	if c.w.Pause == 0 {
		return ctx.Err() == nil
	}
	return retry.Sleep(ctx, time.Duration(c.rng.ExpFloat64()*float64(c.w.Pause)))
}

// choose returns the next operation on a key of the current set: a third are reads, the rest
// is spread over all kinds.
func (c *worker) choose() (Op, int) {
	keySet := int(c.started.Add(1)) / (c.w.Keys * c.w.KeyOps)
	op := Op{Client: c.index, Kind: Kind(c.rng.IntN(int(Add) + 1))}
	if c.rng.IntN(3) == 0 {
		op.Kind = Get
	}
	op.Key = fmt.Sprintf("%s-%d-%d", c.w.Prefix, keySet, c.rng.IntN(c.w.Keys))
	switch op.Kind {
	case Put:
		op.Value = c.value()
	case CAS:
		op.Value = c.value()
		if c.rng.IntN(4) > 0 {
			op.Expected = c.known[op.Key]
		}
	case Add:
		op.Delta = 1 + c.rng.Uint64N(3)
	}
	return op, keySet
}

// value returns a value that no worker writes twice. Half of the values are counters for Add.
func (c *worker) value() string {
	c.number++
	if c.rng.IntN(2) == 0 {
		return string(binary.BigEndian.AppendUint64(nil, uint64(c.index+1)<<40|uint64(c.number)<<8))
	}
	return fmt.Sprintf("%d of client %d", c.number, c.index)
}
