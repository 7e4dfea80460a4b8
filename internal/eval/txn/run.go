package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Run lets clients work on a system and measures them. Locks that were taken are given back before it returns, if the system
// still takes them.
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
	ctx, stop := context.WithCancel(ctx) // the first error ends all
	defer stop()
	for i := range all {
		c := &customer{
			options: &o, ledger: l, session: sessions[i], number: i, begin: begin, end: end,
			rng: rand.New(rand.NewPCG(o.Seed, uint64(i))), locks: make([]Lock, o.Locks), was: make([]seen, o.Locks), worker: &all[i],
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
	was        []seen // of the items whose locks are held
}

// run does one transaction after the other until time is up.
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
		runtime.Gosched() // let others have the processor now, and not in the middle of a transaction with its locks held
	}
}

// counts reports whether something that ends now is part of the measurement.
func (c *customer) counts(now time.Time) bool { return !now.Before(c.begin) && now.Before(c.end) }

// transact tries a transaction until it commits; false: time was up before.
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
		if err := rest(ctx, c.pause(now.Sub(started), failures)); err != nil {
			return false, err
		}
	}
}

// takeAll takes the locks in their order, and returns how many of the first ones are held: all, or not enough. What was
// taken beyond them is given back at once.
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

// giveBeyond gives back those of some locks that were taken though an earlier one was not.
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

// commit does the order, and gives the locks back.
func (c *customer) commit(ctx context.Context) error {
	for i, item := range c.order.items {
		c.ledger.write(item, c.was[i], c.order.units[i])
	}
	return c.giveBack(ctx, len(c.order.items))
}

// giveBack gives the first locks back.
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

// maxDoublings bounds the pause after attempts that failed.
const maxDoublings = 6

// pause before the next attempt: random, and of the length of the one that failed, so that the rule is the same for fast
// and slow systems; twice as long after each further one, so that many who want the same lock leave each other room.
func (c *customer) pause(took time.Duration, failures int) time.Duration {
	return time.Duration(c.rng.Int64N(int64(took)<<min(failures, maxDoublings) + 1))
}

// rest waits, or returns the error of ctx when that ends first.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
