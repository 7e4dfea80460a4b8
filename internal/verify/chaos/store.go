package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/verify/history"
)

// Store adapts the product's client to [history.Store].
type Store struct{ Client *client.Client }

// Do implements [history.Store].
func (s Store) Do(ctx context.Context, op *history.Op) history.Result {
	var r client.Result
	var err error
	switch op.Kind {
	case history.Get:
		r, err = s.Client.Get(ctx, op.Key)
	case history.Put:
		r, err = s.Client.Put(ctx, op.Key, []byte(op.Value))
	case history.Delete:
		r, err = s.Client.Delete(ctx, op.Key)
	case history.CAS:
		r, err = s.Client.CAS(ctx, op.Key, op.Expected, []byte(op.Value))
	case history.Add:
		r, err = s.Client.Add(ctx, op.Key, int64(op.Delta))
	}
	return resultOf(op, r, err)
}

// resultOf converts an operation's outcome for the history.
func resultOf(op *history.Op, r client.Result, err error) history.Result {
	result := history.Result{Version: r.Version, Read: string(r.Value)}
	var failed *client.CASFailedError
	switch {
	case err == nil:
		result.Outcome = history.OK
	case errors.As(err, &failed):
		return history.Result{
			Outcome: history.Failed, Version: failed.Version, Read: string(failed.Value), NoValue: failed.ValueUnknown,
		}
	case errors.Is(err, client.ErrNotFound) && op.Kind == history.Get:
		result.Outcome = history.NotFound
	case errors.Is(err, client.ErrNotCounter):
		result.Outcome = history.NotCounter
	default:
		return history.Result{}
	}
	return result
}

// gathered is the product's client for several workers. Their operations begin at the same moments,
// so that they share bundles.
type gathered struct {
	client *client.Client
	asks   chan ask
}

// ask is an operation that waits for its start.
type ask struct {
	op    client.Op
	ended func(client.Result, error)
}

// gather starts all operations that arrive within a period together, until ctx ends. Later
// operations get no answer.
func gather(ctx context.Context, c *client.Client, within time.Duration) gathered {
	g := gathered{c, make(chan ask)}
	go func() {
		ticks := time.NewTicker(within)
		defer ticks.Stop()
		var waiting []ask
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-g.asks:
				waiting = append(waiting, one)
			case <-ticks.C:
				for _, one := range waiting {
					c.Start(ctx, one.op, one.ended)
				}
				waiting = waiting[:0]
			}
		}
	}()
	return g
}

// Do implements [history.Store].
func (g gathered) Do(_ context.Context, op *history.Op) history.Result {
	done := make(chan history.Result, 1)
	g.asks <- ask{startable(op), func(r client.Result, err error) { done <- resultOf(op, r, err) }}
	return <-done
}

// startable returns the operation for a client with many outstanding operations.
func startable(op *history.Op) client.Op {
	switch op.Kind {
	case history.Put:
		return client.PutOp(op.Key, []byte(op.Value))
	case history.Delete:
		return client.DeleteOp(op.Key)
	case history.CAS:
		return client.CASOp(op.Key, op.Expected, []byte(op.Value))
	case history.Add:
		return client.AddOp(op.Key, int64(op.Delta))
	}
	return client.GetOp(op.Key)
}
