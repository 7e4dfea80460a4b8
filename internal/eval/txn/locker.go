package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Item is what is locked.
type Item uint32

// System is a lock service.
type System interface {
	// Session opens what one client needs. Clients share nothing, as if each ran on a machine of its own.
	Session(ctx context.Context, client int) (Session, error)
	// Settings say how the system was set up, for readers of a figure.
	Settings() []string
	Close() error
}

// Session takes and gives back locks for one client.
type Session interface {
	// Take asks for the locks of items, all at once, and says of each in locks, which is as long, what became of it. A system
	// whose locks wait returns when it has all of them; others say at once what is held by somebody else. An
	// error leaves it open which locks are held.
	Take(ctx context.Context, items []Item, locks []Lock) error
	// Give gives locks back that are held.
	Give(ctx context.Context, items []Item, locks []Lock) error
	Close() error
}

// Lock is what became of the wish for a lock.
type Lock struct {
	Taken bool
	Token uint64 // the lock's fencing token; 0: the system has none
}

// notTaken and given say which lock an error is about.
func notTaken(item Item, err error) error {
	return fmt.Errorf("take the lock of item %d: %w", item, err)
}

func given(item Item, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("give back the lock of item %d: %w", item, err)
}

// sideBySide does something n times at once.
func sideBySide(n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	failed := make([]error, n)
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { failed[i] = do(i) })
	}
	done.Wait()
	return errors.Join(failed...)
}
