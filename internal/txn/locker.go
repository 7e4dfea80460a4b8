package txn

import "context"

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
