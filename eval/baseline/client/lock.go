package client

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// Lock takes a free lock as NetChain's paper does: a lock is a key that holds its owner's id, or
// zeros. An owner has one outstanding query for each lock.
//
// An answer may belong to any attempt of the query. A lock that holds the owner's id was taken by
// an earlier attempt. After a refusal, an unanswered attempt may still have taken the lock; Lock
// undoes that, since no other client can. An attempt that the network delivers even later takes
// the lock forever: the protocol can't tell it from a new query.
func (c *NetChain) Lock(ctx context.Context, key netchain.Key, owner Value) (taken bool, err error) {
	a, taken, err := c.CompareAndSwap(ctx, key, Value{}, owner)
	if err != nil || taken || a.Attempts == 1 {
		return taken, err
	}
	if string(a.Value) == string(owner[:]) {
		return true, nil
	}
	_, _, err = c.CompareAndSwap(ctx, key, owner, Value{})
	return false, err
}

// Unlock gives a lock back. Of a query that was repeated, any answer is good: an earlier attempt did it.
func (c *NetChain) Unlock(ctx context.Context, key netchain.Key, owner Value) error {
	a, given, err := c.CompareAndSwap(ctx, key, owner, Value{})
	if err == nil && !given && a.Attempts == 1 {
		return fmt.Errorf("the lock %x is held by %x", key, a.Value)
	}
	return err
}
