package chainlog

import (
	"context"
	"errors"

	"github.com/netcraq/netcraq/client"
)

// replace overwrites objects concurrently, except those of a later writer. It retries until ctx ends.
func (r *ring) replace(ctx context.Context, keys []string, values [][]byte, term uint64) error {
	for len(keys) > 0 {
		ops, err := r.replacements(ctx, keys, values, term)
		if err != nil {
			return err
		}
		var againKeys []string
		var againValues [][]byte
		for i, o := range r.chain.Do(ctx, ops) {
			if o.Err == nil {
				continue
			}
			if errors.Is(o.Err, client.ErrFull) {
				return o.Err
			}
			if !errors.Is(o.Err, client.ErrCASFailed) {
				if err := r.passing(ctx, keys[i], o.Err); err != nil {
					return err
				}
			}
			againKeys, againValues = append(againKeys, keys[i]), append(againValues, values[i])
		}
		keys, values = againKeys, againValues
	}
	return nil
}

// replacements returns a write for each object, conditional on its present version.
func (r *ring) replacements(ctx context.Context, keys []string, values [][]byte, term uint64) ([]client.Op, error) {
	ops := make([]client.Op, len(keys))
	for i, o := range r.chain.GetMany(ctx, keys) {
		for o.Err != nil && !errors.Is(o.Err, client.ErrNotFound) {
			if err := r.passing(ctx, keys[i], o.Err); err != nil {
				return nil, err
			}
			o.Result, o.Err = r.chain.Get(ctx, keys[i])
		}
		if found, err := decode(o.Value); o.Err == nil && err == nil && found.term > term {
			return nil, ErrDeposed
		}
		ops[i] = client.CASOp(keys[i], o.Version, values[i])
	}
	return ops, nil
}
