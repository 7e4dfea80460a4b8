// Package watch follows keys by reading them again and again: often while they change, seldom while they do not. It reports the newest
// value after a change, so a key that changed several times between two reads is reported once.
package watch

import (
	"context"
	"errors"
	"time"

	"github.com/netcraq/netcraq/client"
)

// Options say how often keys are read.
type Options struct {
	Least time.Duration // between two reads of a key that has just changed; 0: DefaultLeast
	Most  time.Duration // between two reads of a key that does not change; 0: DefaultMost
}

// The defaults: a key that changes costs at most 20 reads a second, one that does not one.
const (
	DefaultLeast = 50 * time.Millisecond
	DefaultMost  = time.Second
)

// growth is by which part the time between two reads of a key grows with each that shows no change.
const growth = 4

// Event is the state of a key after a change.
type Event struct {
	Key     string
	Value   []byte
	Version uint64 // resumes the watch
	Deleted bool   // the key does not exist
	// Back says that the version is lower than before: the shard has lost its state, or was restored.
	Back bool
}

// Key is the watch of one key. It decides what is a change, and when to read next; it has no clock and does no I/O.
type Key struct {
	Name    string
	options Options
	known   bool // the state below is known
	exists  bool
	version uint64
	pause   time.Duration
	due     time.Time
}

// New watches a key from its present state on, which is the first event.
func New(name string, o Options) *Key {
	if o.Least == 0 {
		o.Least = DefaultLeast
	}
	if o.Most == 0 {
		o.Most = DefaultMost
	}
	return &Key{Name: name, options: o, pause: o.Least}
}

// After watches a key from the changes after a version on, that of an earlier event.
func After(name string, version uint64, o Options) *Key {
	k := New(name, o)
	k.known, k.exists, k.version = true, true, version
	return k
}

// Due is when to read the key next.
func (k *Key) Due() time.Time { return k.due }

// Saw takes what a read showed that began at a time, and reports whether it is a change. An error other than
// [client.ErrNotFound] shows nothing.
func (k *Key) Saw(now time.Time, r client.Result, err error) (e Event, changed bool) {
	absent := errors.Is(err, client.ErrNotFound)
	switch {
	case err != nil && !absent:
	case !k.known, !absent && (!k.exists || r.Version != k.version):
		changed = true
	case absent: // its version is 0 once the tombstone is collected
		changed = k.exists && r.Version != k.version || r.Version > k.version
	}
	if !changed {
		if absent {
			k.exists = false
		}
		k.pause = min(k.options.Most, k.pause+k.pause/growth)
		k.due = now.Add(k.pause)
		return e, false
	}
	e = Event{Key: k.Name, Value: r.Value, Version: r.Version, Deleted: absent, Back: k.known && !absent && r.Version < k.version}
	k.known, k.exists, k.version = true, !absent, r.Version
	if absent {
		e.Value = nil
	}
	k.pause = k.options.Least
	k.due = now.Add(k.pause)
	return e, true
}

// Reader reads several keys at once: [client.Client.GetMany].
type Reader interface {
	GetMany(ctx context.Context, keys []string, options ...client.ReadOption) []client.Outcome
}

// Run watches keys until ctx ends, or until changed returns false. trouble is told of reads that failed, and of the first one
// after them that did not, with a nil error; they are repeated.
func Run(ctx context.Context, c Reader, keys []*Key, changed func(Event) bool, trouble func(key string, err error)) {
	failing := make(map[*Key]bool)
	for ctx.Err() == nil {
		due, names := next(ctx, keys)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		for i, outcome := range c.GetMany(ctx, names) {
			k := due[i]
			e, is := k.Saw(now, outcome.Result, outcome.Err)
			failed := outcome.Err != nil && !errors.Is(outcome.Err, client.ErrNotFound)
			if failed != failing[k] && ctx.Err() == nil {
				if failing[k] = failed; failed {
					trouble(k.Name, outcome.Err)
				} else {
					trouble(k.Name, nil)
				}
			}
			if is && !changed(e) {
				return
			}
		}
	}
}

// next waits until a key is due, and returns those that are by then, or hardly later: they share a read.
func next(ctx context.Context, keys []*Key) (due []*Key, names []string) {
	first := keys[0].due
	for _, k := range keys {
		if k.due.Before(first) {
			first = k.due
		}
	}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, nil
	case <-timer.C:
	}
	for _, k := range keys {
		if !k.due.After(first.Add(k.options.Least / growth)) {
			due, names = append(due, k), append(names, k.Name)
		}
	}
	return due, names
}
