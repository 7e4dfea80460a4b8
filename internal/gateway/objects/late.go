package objects

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/netcraq/netcraq/client"
)

// Chain is what a store uses of a client of the chain.
type Chain interface {
	Get(ctx context.Context, key string, options ...client.ReadOption) (client.Result, error)
	GetMany(ctx context.Context, keys []string, options ...client.ReadOption) []client.Outcome
	Delete(ctx context.Context, key string) (client.Result, error)
	Do(ctx context.Context, ops []client.Op) []client.Outcome
}

// Late is a chain that cannot be reached yet. Its operations fail until [Late.Open].
type Late struct{ chain atomic.Pointer[client.Client] }

var errNotOpen = errors.New("the chain has not been reached yet")

// Open lets operations use a client.
func (l *Late) Open(chain *client.Client) { l.chain.Store(chain) }

// Get implements [Chain].
func (l *Late) Get(ctx context.Context, key string, options ...client.ReadOption) (client.Result, error) {
	if chain := l.chain.Load(); chain != nil {
		return chain.Get(ctx, key, options...)
	}
	return client.Result{}, errNotOpen
}

// GetMany implements [Chain].
func (l *Late) GetMany(ctx context.Context, keys []string, options ...client.ReadOption) []client.Outcome {
	if chain := l.chain.Load(); chain != nil {
		return chain.GetMany(ctx, keys, options...)
	}
	return failed(len(keys))
}

// Delete implements [Chain].
func (l *Late) Delete(ctx context.Context, key string) (client.Result, error) {
	if chain := l.chain.Load(); chain != nil {
		return chain.Delete(ctx, key)
	}
	return client.Result{}, errNotOpen
}

// Do implements [Chain].
func (l *Late) Do(ctx context.Context, ops []client.Op) []client.Outcome {
	if chain := l.chain.Load(); chain != nil {
		return chain.Do(ctx, ops)
	}
	return failed(len(ops))
}

func failed(n int) []client.Outcome {
	outcomes := make([]client.Outcome, n)
	for i := range outcomes {
		outcomes[i].Err = errNotOpen
	}
	return outcomes
}
