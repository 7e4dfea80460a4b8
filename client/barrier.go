package client

import (
	"context"
	"fmt"
)

// Barrier lets a number of parties wait for each other, as often as they like: to begin together, to end together.
type Barrier struct {
	counter *Counter
	parties int64
}

// Barrier makes a barrier of a key. All parties must give the same number of them.
func (c *Client) Barrier(key string, parties int) (*Barrier, error) {
	if parties < 1 {
		return nil, fmt.Errorf("%w: a barrier needs at least one party, not %d", ErrBadRequest, parties)
	}
	return &Barrier{c.Counter(key), int64(parties)}, nil
}

// Wait arrives at the barrier and returns when all parties have arrived. round is the number of times that they had all
// arrived before. A party that arrived counts even if it stopped waiting. If the outcome of the arrival is unknown, it may
// or may not count: all parties must start again with another key.
func (b *Barrier) Wait(ctx context.Context) (round int64, err error) {
	arrived, err := b.counter.Add(ctx, 1)
	if err != nil {
		return 0, err
	}
	round = (arrived - 1) / b.parties
	full := (round + 1) * b.parties
	for looks := 0; arrived < full; looks++ {
		if !sleep(ctx, lookPause(looks)) {
			return round, fmt.Errorf("barrier %s: %d of %d have arrived: %w", quoteKey(b.counter.key),
				arrived-round*b.parties, b.parties,
				contextError(ctx.Err()))
		}
		now, err := b.counter.Value(ctx)
		if err != nil && !passing(err) {
			return round, err
		}
		if err == nil {
			arrived = now
		}
	}
	return round, nil
}
