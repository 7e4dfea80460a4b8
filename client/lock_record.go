package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// lockFormat marks a lock's record.
const lockFormat = 1

// lockRecord is what stands under a lock's key, as JSON, so that people can read it.
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

// randomOwner names a lock's owner, and nobody else.
func randomOwner() string { return strconv.FormatUint(randomID(), 16) }

func (r lockRecord) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("client: a lock's record has no JSON: " + err.Error()) // it is made of numbers and strings
	}
	return text
}

// lockFound is what stands under a lock's key.
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

// whose says who has it now.
func (f *lockFound) whose() string {
	switch {
	case f.record.Owner == "":
		return "its record was removed"
	case f.record.Note == "":
		return "another holder took it over"
	}
	return f.record.Note + " took it over"
}

// watch is how long a record has stayed the same before the eyes of one who wants the lock.
type watch struct {
	clock   func() time.Duration
	version uint64
	since   time.Duration // boot time
	ttl     time.Duration
	looks   int
	held    bool
	note    string
}

// ripe reports whether the lock may be taken: it is free, or its record stayed the same for its whole time to live.
func (w *watch) ripe(f *lockFound) bool {
	now := w.clock()
	w.looks++
	w.held, w.note = f.record.Owner != "", f.record.Note
	if !w.held {
		return true
	}
	if f.version != w.version {
		w.version, w.since, w.ttl = f.version, now, time.Duration(f.record.TTLms)*time.Millisecond
		return false
	}
	return now-w.since >= w.ttl
}

// Pauses between two looks at what others hold or have yet to do: the first is about a lock held shortly, the longest adds little to a
// time to live.
const (
	firstLook = time.Millisecond
	maxLook   = 50 * time.Millisecond
)

// lookPause is the pause after so many looks: random, so that those who wait for the same do not meet.
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

// describe adds to the end of waiting who was waited for.
func (w *watch) describe(name string, err error) error {
	if w.held {
		return fmt.Errorf("%w; %w", &LockedError{name, w.note}, err)
	}
	return fmt.Errorf("lock %s: %w", quoteKey(name), err)
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

// rest waits and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
