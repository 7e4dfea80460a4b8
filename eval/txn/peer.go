package txn

import (
	"context"
	"errors"
	"sync"

	"github.com/netcraq/netcraq/eval/peer"
)

// peerLocks uses a peer's own locks.
type peerLocks struct {
	store peer.Store
	mu    sync.Mutex
	held  map[Item]peer.Lock
}

// Take requests all locks concurrently: peers have no locks of several keys.
func (p *peerLocks) Take(ctx context.Context, items []Item, locks []Lock) error {
	return sideBySide(len(items), func(i int) error {
		l, err := p.store.Lock(ctx, lockName(items[i]))
		if errors.Is(err, peer.ErrLocked) {
			locks[i] = Lock{}
			return nil
		}
		if err != nil {
			return notTaken(items[i], err)
		}
		locks[i] = Lock{Taken: true}
		p.mu.Lock()
		p.held[items[i]] = l
		p.mu.Unlock()
		return nil
	})
}

func (p *peerLocks) Give(ctx context.Context, items []Item, _ []Lock) error {
	return sideBySide(len(items), func(i int) error {
		p.mu.Lock()
		l := p.held[items[i]]
		delete(p.held, items[i])
		p.mu.Unlock()
		return given(items[i], l.Unlock(ctx))
	})
}

// Close does nothing: the system closes the peer's client.
func (p *peerLocks) Close() error { return nil }

// peerSystem is a peer with its client library. Clients share connections as the library does.
type peerSystem struct{ peer.Store }

func (p peerSystem) Session(context.Context, int) (Session, error) {
	return &peerLocks{store: p.Store, held: make(map[Item]peer.Lock)}, nil
}

// openPeer starts a peer with the same number of copies as the other systems.
func openPeer(name string) func(context.Context, *OpenOptions) (System, error) {
	return func(ctx context.Context, o *OpenOptions) (System, error) {
		store, err := peer.Open(ctx, name, peer.Options{Members: chainNodes, Progress: o.Progress})
		if err != nil {
			return nil, err
		}
		return peerSystem{store}, nil
	}
}
