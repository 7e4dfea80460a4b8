package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Item identifies a lockable item.
type Item uint32

// System is a lock service.
type System interface {
	// Session opens the resources of one client. Clients share none, as if each ran on its own
	// machine.
	Session(ctx context.Context, client int) (Session, error)
	// Settings describes the system's setup, to be printed with its figures.
	Settings() []string
	Close() error
}

// Session acquires and releases locks for one client.
type Session interface {
	// Take requests the locks of items, all at once, and stores the outcome of each in locks, which
	// has the same length. A system with blocking locks returns when it has all of them. Others
	// report held locks at once. After an error the held locks are unknown.
	Take(ctx context.Context, items []Item, locks []Lock) error
	// Give releases held locks.
	Give(ctx context.Context, items []Item, locks []Lock) error
	Close() error
}

// Lock is the outcome of a lock request.
type Lock struct {
	Taken bool
	Token uint64 // the lock's fencing token; 0: the system has none
}

// notTaken and given add the item to an error.
func notTaken(item Item, err error) error {
	return fmt.Errorf("acquire the lock of item %d: %w", item, err)
}

func given(item Item, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("release the lock of item %d: %w", item, err)
}

// sideBySide runs do n times concurrently.
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
