package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// DefaultLockTTL is how long a lock lasts without renewal, unless [LockOptions] say otherwise.
const DefaultLockTTL = 5 * time.Second

// Least and longest time to live of a lock.
const (
	minLockTTL = 100 * time.Millisecond
	maxLockTTL = 24 * time.Hour
)

// maxNoteBytes is the maximum length of a holder's note.
const maxNoteBytes = 256

// Errors of locks, to compare with errors.Is.
var (
	// ErrLocked: another owner holds the lock; see LockedError.
	ErrLocked = errors.New("the lock is taken")
	// ErrLockLost: the lock ended before it was unlocked. Another client may hold it.
	ErrLockLost = errors.New("the lock is lost")
	// ErrUnlocked: the lock was unlocked by its holder.
	ErrUnlocked = errors.New("the lock was unlocked")
	// ErrNotLock: the key holds something that no lock wrote.
	ErrNotLock = errors.New("the key holds something other than a lock")
)

// LockedError names the holder of a lock.
type LockedError struct {
	Name, Note string
	// Alive: this client has seen the holder take or renew the lock since it first found it taken.
	Alive bool
	// Left is how long the holder has to stay silent from now on until the lock can be taken over.
	Left time.Duration
}

func (e *LockedError) Error() string {
	if e.Note == "" {
		return fmt.Sprintf("%v: %s", ErrLocked, quoteKey(e.Name))
	}
	return fmt.Sprintf("%v: %s is held by %s", ErrLocked, quoteKey(e.Name), e.Note)
}

// Is makes the error an ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// LockOptions configure a lock. The zero value of every field is its default.
type LockOptions struct {
	// TTL is the time to live of the lock. If the holder is gone, others wait for at most this time after they detect it.
	TTL time.Duration
	// Grace is how long before the lock can go to others Done tells of its loss, at most half of TTL.
	Grace time.Duration
	// Note is shown to other clients that want the lock.
	Note string
}

func (o *LockOptions) complete() error {
	if o.TTL == 0 {
		o.TTL = DefaultLockTTL
	}
	switch {
	case o.TTL < minLockTTL || o.TTL > maxLockTTL:
		return fmt.Errorf("%w: a lock's time to live is %v to %v, not %v", ErrBadRequest, minLockTTL, maxLockTTL, o.TTL)
	case o.Grace < 0 || o.Grace > o.TTL/2:
		return fmt.Errorf("%w: a lock's grace is at most half of its time to live, not %v", ErrBadRequest, o.Grace)
	case len(o.Note) > maxNoteBytes:
		return fmt.Errorf("%w: a lock's note has at most %d bytes, not %d", ErrBadRequest, maxNoteBytes, len(o.Note))
	}
	o.TTL = o.TTL.Truncate(time.Millisecond) // as the record says it
	return nil
}

// Lock is a lock that this client holds.
//
// The store has no clocks, so a lock is a record that its holder renews. A client that wants the lock watches the record,
// and takes it over only after it stayed the same for its whole time to live on the watcher's own clock. The holder
// counts from the beginning of its last successful renewal, and gives up after nine tenths of the time. So two clients
// never hold the lock at once, if the clocks of their machines run at the same rate to within a tenth. The clocks need
// not show the same time, and may be set at any time. Time in which a machine sleeps counts.
//
// A holder that is stopped (a paused process, a long garbage collection) does not notice that its time is up. For full
// safety, the protected resource must refuse tokens below the highest one that it has seen: see [Lock.Token].
type Lock struct {
	client  *Client
	name    string
	options LockOptions
	owner   string // of this lock and no other
	token   uint64

	stop context.CancelFunc // ends keep
	kept chan struct{}      // closed when keep has ended
	done chan struct{}

	mu       sync.Mutex
	version  uint64        // of our record, as far as known
	renewals uint64        // attempted
	until    time.Duration // boot time at which it can go to others
	err      error
}

// Lock waits for a lock. If ctx ends before, the error names the holder. If ctx has no deadline and no node answers
// within [Options].Timeout, or for ten times as long once the lock was found taken, it gives up too.
func (c *Client) Lock(ctx context.Context, name string, o LockOptions) (*Lock, error) {
	return c.acquire(ctx, name, o, true)
}

// TryLock takes a lock that is free, else the error is a LockedError. It does not wait. A holder that is gone is told
// from one that lives by its silence, which the client measures from call to call: a call takes the lock over if the
// holder's record has stayed the same for its whole time to live since an earlier call of the same client.
func (c *Client) TryLock(ctx context.Context, name string, o LockOptions) (*Lock, error) {
	return c.acquire(ctx, name, o, false)
}

// Token is the lock's fencing token: greater than that of every earlier holder.
func (l *Lock) Token() uint64 { return l.token }

// Done is closed when the lock is unlocked or lost, in the latter case the grace before others may hold it.
func (l *Lock) Done() <-chan struct{} { return l.done }

// Err says why Done is closed: ErrUnlocked, or an ErrLockLost with its reason.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Left is how long the lock is certainly held yet, without another renewal; not positive: it may be lost.
func (l *Lock) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, ErrUnlocked) {
		return 0
	}
	return l.until - l.client.bootTime()
}

// Unlock gives the lock back. If it returns another error than ErrLockLost, others may have to wait for the time to
// live.
func (l *Lock) Unlock(ctx context.Context) error {
	l.stop()
	<-l.kept
	if !l.finish(ErrUnlocked) {
		if err := l.Err(); !errors.Is(err, ErrUnlocked) {
			return err
		}
		return nil
	}
	free := lockRecord{Lock: lockFormat}
	for {
		_, err := l.client.CAS(ctx, lockKey(l.name), l.version, free.encode())
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		found, err := l.client.lookAt(ctx, l.name)
		switch {
		case err != nil:
			return err
		case found.record.Owner == "": // a try of unknown outcome
			return nil
		case found.record.Owner != l.owner:
			return fmt.Errorf("%w: %s", ErrLockLost, found.whose())
		}
		l.version = found.version
	}
}

// finish closes Done, the first time, and reports whether this was it.
func (l *Lock) finish(reason error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.err = reason
	close(l.done)
	return true
}

// acquire waits for the lock, or only looks.
func (c *Client) acquire(ctx context.Context, name string, o LockOptions, wait bool) (*Lock, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	l := &Lock{client: c, name: name, options: o, owner: randomOwner(), kept: make(chan struct{}),
		done: make(chan struct{})}
	watch := c.watches.begin(name, c.bootTime)
	defer func() { c.watches.end(name, watch) }()
	for {
		found, err := c.lookAt(ctx, name)
		if err == nil {
			switch ripe := watch.ripe(&found); {
			case ripe || found.record.Owner == l.owner: // ours: a try of unknown outcome that took effect
				if err = l.take(ctx, found.version); err == nil {
					watch.held = false
					return l, nil
				}
			case !wait:
				return nil, watch.locked(name)
			}
		}
		if err != nil && (!passing(err) || watch.hopeless(ctx, err, c.options.Timeout)) {
			return nil, watch.describe(name, err)
		}
		if !sleep(ctx, watch.pause()) {
			return nil, watch.describe(name, contextError(ctx.Err()))
		}
	}
}

// take makes the record ours if its version is still the one given.
func (l *Lock) take(ctx context.Context, version uint64) error {
	began := l.client.bootTime()
	r, err := l.client.CAS(ctx, lockKey(l.name), version, l.record().encode())
	if err != nil {
		return err
	}
	l.token = r.Version
	l.renewed(began, r.Version)
	keeping, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.keep(keeping)
	return nil
}

// renewed notes that the record was written by us, at the earliest at the boot time began.
func (l *Lock) renewed(began time.Duration, version uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version, l.until = version, began+l.options.TTL-l.options.TTL/10
}

func (l *Lock) record() lockRecord {
	l.renewals++
	return lockRecord{
		Lock: lockFormat, Owner: l.owner, TTLms: l.options.TTL.Milliseconds(), Renewals: l.renewals,
		Token: l.token, Note: l.options.Note,
	}
}

// keep renews the lock until it is unlocked or lost.
func (l *Lock) keep(ctx context.Context) {
	defer close(l.kept)
	for wait := l.options.TTL / 3; ; {
		if !sleep(ctx, min(wait, max(l.Left()-l.options.Grace, 0))) {
			return
		}
		left := l.Left() - l.options.Grace
		if left <= 0 {
			l.finish(fmt.Errorf("%w: it could not be renewed in time", ErrLockLost))
			return
		}
		renewing, cancel := context.WithTimeout(ctx, left)
		err := l.renew(renewing)
		cancel()
		switch {
		case err == nil:
			wait = l.options.TTL / 3
		case errors.Is(err, ErrLockLost):
			l.finish(err)
			return
		default: // until time is up
			wait = l.options.TTL/50 + rand.N(l.options.TTL/50)
		}
	}
}

// renew writes the record once more.
func (l *Lock) renew(ctx context.Context) error {
	began := l.client.bootTime()
	r, err := l.client.CAS(ctx, lockKey(l.name), l.version, l.record().encode())
	if err == nil {
		l.renewed(began, r.Version)
		return nil
	}
	if !errors.Is(err, ErrCASFailed) {
		return err
	}
	found, err := l.client.lookAt(ctx, l.name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found.record.Owner != l.owner {
		l.until = 0 // at once, without grace
		return fmt.Errorf("%w: %s", ErrLockLost, found.whose())
	}
	l.version = found.version // of a renewal whose outcome was unknown
	return errLateRenewal
}

var errLateRenewal = errors.New("an earlier renewal took effect late")
