package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Run measures a system under a closed loop of clients. Before it returns, it releases the locks
// still held, if the system allows.
func Run(ctx context.Context, system System, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	sessions := make([]Session, 0, o.Clients)
	defer func() {
		for _, s := range sessions {
			s.Close()
		}
	}()
	for i := range o.Clients {
		s, err := system.Session(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		sessions = append(sessions, s)
	}
	l, all := newLedger(o.AllItems()), make([]worker, o.Clients)
	begin := time.Now().Add(o.WarmUp)
	end := begin.Add(o.Duration)
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(ctx) // the first error stops all clients
	defer stop()
	for i := range all {
		c := &customer{
			options: &o, ledger: l, session: sessions[i], number: i, begin: begin, end: end,
			rng: rand.New(rand.NewPCG(o.Seed, uint64(i))), locks: make([]Lock, o.Locks),
			was: make([]seen, o.Locks), worker: &all[i],
		}
		done.Go(func() {
			if c.err = c.run(ctx); c.err != nil {
				stop()
			}
		})
	}
	done.Wait()
	for i := range all {
		if err := all[i].err; err != nil && !errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := o.result(all, l, o.Duration)
	r.Settings = system.Settings()
	return r, nil
}

// customer is a client of the closed loop.
type customer struct {
	*worker
	options    *Options
	ledger     *ledger
	session    Session
	number     int
	begin, end time.Time // of the measurement
	rng        *rand.Rand
	order      order
	locks      []Lock
	was        []seen // states of the items whose locks are held
}

// run executes transactions until the time is up.
func (c *customer) run(ctx context.Context) error {
	for {
		started := time.Now()
		if !started.Before(c.end) {
			return nil
		}
		c.order.draw(c.options, c.rng)
		committed, err := c.transact(ctx)
		if err != nil || !committed {
			return err
		}
		c.done.orders += uint64(len(c.order.items))
		for _, units := range c.order.units {
			c.done.units += uint64(units)
		}
		if now := time.Now(); c.counts(now) {
			c.commits++
			c.times = append(c.times, now.Sub(started))
		}
		runtime.Gosched() // yield here rather than inside a transaction that holds locks
	}
}

// counts reports whether a transaction that ends at now belongs to the measurement.
func (c *customer) counts(now time.Time) bool { return !now.Before(c.begin) && now.Before(c.end) }

// transact repeats a transaction until it commits. It returns false if the time is up before.
func (c *customer) transact(ctx context.Context) (bool, error) {
	for failures := 0; ; failures++ {
		started := time.Now()
		held, err := c.takeAll(ctx)
		if err != nil {
			return false, err
		}
		if committed := held == len(c.order.items); committed {
			return true, c.commit(ctx)
		}
		if err := c.giveBack(ctx, held); err != nil {
			return false, err
		}
		now := time.Now()
		if c.counts(now) {
			c.aborts++
		}
		if !now.Before(c.end) {
			return false, nil
		}
		if !retry.Sleep(ctx, c.pause(now.Sub(started), failures)) {
			return false, ctx.Err()
		}
	}
}

// takeAll acquires the locks in order and returns the number held from the first on. It releases at
// once locks acquired beyond one that was refused.
func (c *customer) takeAll(ctx context.Context) (int, error) {
	items := c.order.items
	for from := 0; from < len(items); {
		to := min(from+c.options.AtOnce, len(items))
		if err := c.session.Take(ctx, items[from:to], c.locks[from:to]); err != nil {
			return from, err
		}
		for ; from < to && c.locks[from].Taken; from++ {
			c.was[from] = c.ledger.enter(items[from], c.number, c.locks[from].Token)
		}
		if from < to {
			return from, c.giveBeyond(ctx, from+1, to)
		}
	}
	return len(items), nil
}

// giveBeyond releases acquired locks that follow a refused one.
func (c *customer) giveBeyond(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		if c.locks[i].Taken {
			if err := c.session.Give(ctx, c.order.items[i:i+1], c.locks[i:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit executes the order and releases the locks.
func (c *customer) commit(ctx context.Context) error {
	for i, item := range c.order.items {
		c.ledger.write(item, c.was[i], c.order.units[i])
	}
	return c.giveBack(ctx, len(c.order.items))
}

// giveBack releases the first held locks.
func (c *customer) giveBack(ctx context.Context, held int) error {
	for from := 0; from < held; from += c.options.AtOnce {
		to := min(from+c.options.AtOnce, held)
		for i := from; i < to; i++ {
			c.ledger.leave(c.order.items[i], c.was[i])
		}
		if err := c.session.Give(ctx, c.order.items[from:to], c.locks[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// maxDoublings bounds the growth of the pause after failed attempts.
const maxDoublings = 6

// pause returns a random pause before the next attempt. Its scale is the duration of the failed
// attempt, which treats fast and slow systems alike. It doubles with each further failure, to
// reduce contention for a hot lock.
func (c *customer) pause(took time.Duration, failures int) time.Duration {
	return time.Duration(c.rng.Int64N(int64(took)<<min(failures, maxDoublings) + 1))
}
