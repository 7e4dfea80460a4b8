package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// lockFormat marks a lock's record.
const lockFormat = 1

// lockRecord is the value of a lock's key, as JSON, so that people can read it.
type lockRecord struct {
	Lock     int    `json:"lock"`            // lockFormat
	Owner    string `json:"owner,omitempty"` // empty: it is free
	TTLms    int64  `json:"ttl_ms,omitempty"`
	Renewals uint64 `json:"renewals,omitempty"`
	Token    uint64 `json:"token,omitempty"` // 0: the version of this record
	Note     string `json:"note,omitempty"`
}

// lockKey is the key of a lock's record. Keys are hashed, so that a longer one costs nothing.
func lockKey(name string) string { return "lock:" + name }

// randomOwner returns a unique name for a lock's owner.
func randomOwner() string { return strconv.FormatUint(randomID(), 16) }

func (r lockRecord) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("client: encoding the record of a lock: " + err.Error()) // it is made of numbers and strings
	}
	return text
}

// lockFound is a lock's record as it was read.
type lockFound struct {
	record  lockRecord
	version uint64
}

// lookAt reads a lock's record.
func (c *Client) lookAt(ctx context.Context, name string) (lockFound, error) {
	r, err := c.Get(ctx, lockKey(name))
	if errors.Is(err, ErrNotFound) {
		return lockFound{version: r.Version}, nil
	}
	if err != nil {
		return lockFound{}, err
	}
	found := lockFound{version: r.Version}
	if err := json.Unmarshal(r.Value, &found.record); err != nil || found.record.Lock != lockFormat {
		return found, fmt.Errorf("%w: %s, or a newer version of this program wrote it", ErrNotLock, quoteKey(lockKey(name)))
	}
	found.record.TTLms = min(max(found.record.TTLms, 0), maxLockTTL.Milliseconds())
	return found, nil
}

// token of the lock that was found.
func (f *lockFound) token() uint64 {
	if f.record.Token == 0 {
		return f.version
	}
	return f.record.Token
}

// whose names the present holder.
func (f *lockFound) whose() string {
	switch {
	case f.record.Owner == "":
		return "its record was removed"
	case f.record.Note == "":
		return "another holder took it over"
	}
	return f.record.Note + " took it over"
}

// watch is how long a record has stayed the same as seen by a client that wants the lock.
type watch struct {
	clock  func() time.Duration
	seen   lockFound     // the record that was found last
	since  time.Duration // boot time
	ttl    time.Duration
	looks  int
	held   bool
	alive  bool          // the record has changed before our eyes
	lost   time.Duration // boot time since which looks and tries to take it stay without an answer; 0: they don't
	refuse error         // why the latest of them failed
}

// ripe reports whether the lock may be taken: it is free, or its record stayed the same for its whole time to live.
func (w *watch) ripe(f *lockFound) bool {
	now := w.clock()
	w.looks++
	before, known := w.seen, w.held
	w.seen, w.held = *f, f.record.Owner != ""
	if !w.held {
		return true
	}
	// The owner and the renewals too: the version of a key begins anew when its tombstone is forgotten.
	if !known || *f != before {
		w.since, w.ttl, w.alive = now, time.Duration(f.record.TTLms)*time.Millisecond, w.alive || known
	}
	if now-w.since >= w.ttl {
		return true
	}
	w.lost, w.refuse = 0, nil
	return false
}

// locked returns the error for a client that does not wait.
func (w *watch) locked(name string) error {
	return &LockedError{Name: name, Note: w.seen.record.Note, Alive: w.alive, Left: max(w.since+w.ttl-w.clock(), 0)}
}

// How many of a client's timeouts may pass without an answer before it gives a lock up: that was found taken; and in
// whose record the client may stand already, after a write of unknown outcome, so that another look is worth it.
const (
	patience       = 10
	patienceToTake = 3
)

// hopeless notes a failure, and reports whether to give up because the cluster has not answered for too long.
func (w *watch) hopeless(ctx context.Context, err error, timeout time.Duration) bool {
	w.refuse = err
	if !errors.Is(err, ErrTimeout) || ctx.Err() != nil {
		return false
	}
	now := w.clock()
	if w.lost == 0 {
		w.lost = now - timeout // when that look began
	}
	if _, limited := ctx.Deadline(); limited {
		return false
	}
	rounds := time.Duration(1)
	switch {
	case w.held:
		rounds = patience
	case errors.Is(err, ErrOutcomeUnknown):
		rounds = patienceToTake
	}
	return now-w.lost >= rounds*timeout
}

// Pauses between two reads of a record that others change. The first pause is about the time of a briefly held lock. The
// longest one adds little to a time to live.
const (
	firstLook = time.Millisecond
	maxLook   = 50 * time.Millisecond
)

// lookPause is the pause after so many looks: random, so that clients that wait for the same lock do not collide.
func lookPause(looks int) time.Duration {
	limit := min(firstLook<<min(looks/2, 10), maxLook)
	return limit/2 + rand.N(limit)
}

// pause before the next look.
func (w *watch) pause() time.Duration {
	pause := lookPause(w.looks)
	if w.held {
		pause = min(pause, max(w.since+w.ttl-w.clock(), firstLook))
	}
	return pause
}

// describe adds to the error the holder of the lock, or why the cluster could not be asked.
func (w *watch) describe(name string, err error) error {
	if w.refuse != nil && !errors.Is(err, w.refuse) {
		err = fmt.Errorf("%w; before: %w", err, w.refuse)
	}
	if w.held {
		return fmt.Errorf("%w; %w", w.locked(name), err)
	}
	if errors.Is(err, ErrNotLock) {
		return err
	}
	return fmt.Errorf("lock %s: %w", quoteKey(name), err)
}

// maxWatches is the maximum number of watched locks that a client remembers.
const maxWatches = 1024

// watches remember the locks that a client found taken, so that [Client.TryLock] can tell holders that are gone.
type watches struct {
	mu     sync.Mutex
	byName map[string]watch
}

// begin goes on with an earlier watch of the lock, if there is one.
func (w *watches) begin(name string, clock func() time.Duration) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.byName[name]
	found.clock, found.looks = clock, 0
	return &found
}

// end keeps the watch, or forgets a lock that is not known to be held by others.
func (w *watches) end(name string, seen *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !seen.held {
		delete(w.byName, name)
		return
	}
	if w.byName == nil {
		w.byName = make(map[string]watch)
	}
	if _, known := w.byName[name]; !known && len(w.byName) >= maxWatches {
		for other := range w.byName { // any: it is watched from the beginning next time
			delete(w.byName, other)
			break
		}
	}
	w.byName[name] = *seen
}

// passing reports whether an operation that ended with this error may go well next time.
func passing(err error) bool {
	for _, lasting := range []error{
		ErrFull, ErrTooLarge, ErrNotCounter, ErrBadRequest, ErrNotMine, ErrNoChain, ErrClosed, ErrNotLock, context.Canceled,
	} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return true
}

// sleep waits for d and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
