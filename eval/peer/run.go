package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Unit and digits of recorded latencies.
const (
	timeUnit   = 100 * time.Nanosecond
	longest    = time.Minute
	timeDigits = 3
)

// morePatience is the factor by which the time of a load grows if no operation ended in it, as
// during a server's pause.
const morePatience = 5

// Run stores the keys of the load if necessary and drives the store. It repeats the load with more
// time if no operation ended. It returns an error if ctx ends or no operation succeeds.
func Run(ctx context.Context, s Store, l Load) (Result, error) {
	if err := l.complete(); err != nil {
		return Result{}, err
	}
	if _, many := s.(Many); l.Pipeline > 1 && !many {
		return Result{}, fmt.Errorf("%s: its client has no calls with several requests at once", s.Name())
	}
	if err := Fill(ctx, s, l); err != nil {
		return Result{}, err
	}
	r, err := drive(ctx, s, l)
	if errors.Is(err, errTooShort) {
		l.Duration *= morePatience
		r, err = drive(ctx, s, l)
	}
	return r, err
}

// drive runs the load for its time.
func drive(ctx context.Context, s Store, l Load) (Result, error) {
	names := l.names()
	begin := time.Now().Add(l.WarmUp)
	end := begin.Add(l.Duration)
	var ranks statistics.Zipf
	if l.Zipf != 0 {
		ranks = statistics.NewZipf(l.Keys, l.Zipf)
	}
	workers := make([]*worker, l.Clients)
	var group sync.WaitGroup
	for i := range workers {
		workers[i] = newWorker(s, &l, i, &drawer{
			rng: rand.New(rand.NewPCG(l.Seed, uint64(i))), names: names, ranks: ranks, from: i, step: l.Clients})
		group.Go(func() { workers[i].run(ctx, begin, end) })
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	r := summarise(s.Name(), &l, workers)
	if r.Operations == 0 && r.Errors == 0 {
		return r, fmt.Errorf("%s: %w: no %s ended within %v", s.Name(), errTooShort, l.Op, l.Duration)
	}
	if r.Operations == 0 {
		return r, fmt.Errorf("%s: no %s succeeded: %s", s.Name(), l.Op, r.FirstError)
	}
	return r, nil
}

var errTooShort = errors.New("too little time under load")

// names returns the keys.
func (l *Load) names() []string {
	names := make([]string, l.Keys)
	for i := range names {
		names[i] = keyName(i)
	}
	return names
}

// Fill stores the keys of a load unless they are stored; [Run] does this too. Call Fill before
// [Store.SetLoss].
func Fill(ctx context.Context, s Store, l Load) error {
	if err := l.complete(); err != nil {
		return err
	}
	if l.Op == LockUnlock {
		return nil
	}
	if err := fill(ctx, s, l.names(), l.ValueBytes); err != nil {
		return fmt.Errorf("%s: store the keys: %w", s.Name(), err)
	}
	return nil
}

// fillers is the number of keys stored concurrently.
const fillers = 32

// fill stores every key unless the first and the last one have their values.
func fill(ctx context.Context, s Store, names []string, valueBytes int) error {
	there := func(name string) bool {
		value, err := s.Get(ctx, name)
		return err == nil && len(value) == valueBytes
	}
	if there(names[0]) && there(names[len(names)-1]) {
		return nil
	}
	value := valueOf(valueBytes)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	for _, name := range names[:len(names)-1] {
		group.Go(func() error { return s.Put(ctx, name, value) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// The last key is written last: its presence means that all keys are stored.
	return s.Put(context.WithoutCancel(ctx), names[len(names)-1], value)
}

// worker is one client of a load.
type worker struct {
	store  Store
	load   *Load
	number int
	keys   *drawer
	value  []byte

	known map[int]Version // versions for CAS
	batch []string

	times     *hdrhistogram.Histogram
	done      int64
	errors    int64
	conflicts int64
	first     error
}

func newWorker(s Store, l *Load, number int, keys *drawer) *worker {
	if l.Op == LockUnlock {
		keys.from, keys.step = 0, 1 // all clients share the locks
	}
	if l.Op != CAS && keys.ranks == nil {
		keys.from, keys.step = 0, 1
	}
	return &worker{store: s, load: l, number: number, keys: keys, value: valueOf(l.ValueBytes),
		known: make(map[int]Version),
		times: hdrhistogram.New(1, int64(longest/timeUnit), timeDigits)}
}

// run works until end. Operations that start before begin do not count.
func (w *worker) run(ctx context.Context, begin, end time.Time) {
	clock := w.clock()
	for {
		due, ok := clock.next(ctx, end)
		if !ok {
			return
		}
		conflicts := w.conflicts
		succeeded, failed, err := w.operate(ctx)
		now := time.Now()
		if due.Before(begin) || now.After(end) && w.load.PerSecond == 0 {
			w.conflicts = conflicts
			continue
		}
		if failed > 0 && ctx.Err() == nil {
			w.errors += int64(failed)
			if w.first == nil {
				w.first = err
			}
		}
		if succeeded > 0 {
			w.done += int64(succeeded)
			_ = w.times.RecordValues(min(int64(now.Sub(due)/timeUnit), int64(longest/timeUnit)), int64(succeeded))
		}
	}
}

// operate runs one operation or one batch and returns how many operations succeeded and failed.
func (w *worker) operate(ctx context.Context) (succeeded, failed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.load.Timeout)
	defer cancel()
	if w.load.Pipeline > 1 {
		return w.many(ctx)
	}
	switch w.load.Op {
	case Get:
		err = w.get(ctx)
	case Put:
		err = w.store.Put(ctx, w.keys.names[w.keys.draw()], w.value)
	case CAS:
		err = w.swap(ctx)
	case LockUnlock:
		err = w.lock(ctx)
	}
	if err != nil {
		return 0, 1, err
	}
	return 1, 0, nil
}

var errWrongValue = errors.New("read a value that was not stored")

func (w *worker) get(ctx context.Context) error {
	value, err := w.store.Get(ctx, w.keys.names[w.keys.draw()])
	if err == nil && string(value) != string(w.value) {
		err = errWrongValue
	}
	return err
}

func (w *worker) swap(ctx context.Context) error {
	key := w.keys.draw()
	for {
		now, swapped, err := w.store.CompareAndSwap(ctx, w.keys.names[key], w.known[key], w.value)
		if err != nil {
			return err
		}
		_, seen := w.known[key]
		w.known[key] = now
		if swapped {
			return nil
		}
		if seen { // otherwise the first attempt fetched the version
			w.conflicts++
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (w *worker) lock(ctx context.Context) error {
	for {
		held, err := w.store.Lock(ctx, w.keys.names[w.keys.draw()])
		if err == nil {
			return held.Unlock(ctx)
		}
		if !errors.Is(err, ErrLocked) {
			return err
		}
		w.conflicts++
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (w *worker) many(ctx context.Context) (succeeded, failed int, err error) {
	w.batch = w.batch[:0]
	for range w.load.Pipeline {
		w.batch = append(w.batch, w.keys.names[w.keys.draw()])
	}
	note := func(_ int, e error) {
		if e == nil {
			succeeded++
			return
		}
		failed++
		err = e
	}
	many := w.store.(Many)
	if w.load.Op == Put {
		many.PutMany(ctx, w.batch, w.value, note)
		return succeeded, failed, err
	}
	many.GetMany(ctx, w.batch, func(i int, value []byte, e error) {
		if e == nil && string(value) != string(w.value) {
			e = errWrongValue
		}
		note(i, e)
	})
	return succeeded, failed, err
}

// summarise merges the results of all clients.
func summarise(system string, l *Load, workers []*worker) Result {
	r := Result{
		System: system, Op: l.Op, Seconds: l.Duration.Seconds(), Clients: l.Clients, Pipeline: l.Pipeline,
		Offered: l.PerSecond, Zipf: l.Zipf,
	}
	times := workers[0].times
	for i, w := range workers {
		if i > 0 {
			times.Merge(w.times)
		}
		r.Operations += w.done
		r.Errors += w.errors
		r.Conflicts += w.conflicts
		if w.first != nil && r.FirstError == "" {
			r.FirstError = w.first.Error()
		}
	}
	us := func(units float64) float64 { return units * float64(timeUnit) / float64(time.Microsecond) }
	r.PerSecond = float64(r.Operations) / r.Seconds
	r.P50us = us(float64(times.ValueAtQuantile(50)))
	r.P99us = us(float64(times.ValueAtQuantile(99)))
	r.P999us = us(float64(times.ValueAtQuantile(99.9)))
	r.MeanUs, r.MaxUs = us(times.Mean()), us(float64(times.Max()))
	return r
}
