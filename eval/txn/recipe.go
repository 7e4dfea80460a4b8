package txn

import (
	"context"
	"errors"

	"github.com/netcraq/netcraq/client"
)

// recipe locks with [client.Lock], which has a time to live, renewals and a record of the holder.
type recipe struct {
	client *client.Client
	held   map[Item]*client.Lock
}

// Recipe returns a client's session of locks with a time to live. The session closes the client.
func Recipe(c *client.Client) Session { return &recipe{client: c, held: make(map[Item]*client.Lock)} }

// Take acquires one lock after the other: each is a read and a CAS that depends on it.
func (r *recipe) Take(ctx context.Context, items []Item, locks []Lock) error {
	for i, item := range items {
		l, err := r.client.TryLock(ctx, lockName(item), client.LockOptions{})
		switch {
		case err == nil:
			r.held[item] = l
			locks[i] = Lock{true, l.Token()}
		case errors.Is(err, client.ErrLocked):
			locks[i] = Lock{}
		default:
			return notTaken(item, err)
		}
	}
	return nil
}

func (r *recipe) Give(ctx context.Context, items []Item, _ []Lock) error {
	for _, item := range items {
		err := r.held[item].Unlock(ctx)
		delete(r.held, item)
		if err != nil {
			return given(item, err)
		}
	}
	return nil
}

func (r *recipe) Close() error { return r.client.Close() }
