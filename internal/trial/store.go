package trial

import (
	"context"
	"errors"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/history"
)

// Store is the product's client as the history sees it.
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
