package client

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/internal/eval/baseline/netchain"
)

// Lock takes a lock as NetChain's paper has it, if nobody holds it: a lock is a key that holds its owner's id, or zeros. An owner has
// one query about a lock at a time.
//
// If a query is repeated, its answer may be that to any attempt. A lock that has the owner's id already was taken by an earlier attempt. If
// the answer is a refusal, an attempt that is not answered yet may have taken the lock meanwhile, which is undone: nobody
// else could. What a network may still deliver after that takes the lock for nobody, and for ever; the protocol can't tell it from a new query.
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
