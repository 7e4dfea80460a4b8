package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Counter is a number that many add to. It is a key with a value of 8 bytes.
type Counter struct {
	client *Client
	key    string
}

// Counter makes a counter of a key. It sends nothing; a key that does not exist counts as 0.
func (c *Client) Counter(key string) *Counter { return &Counter{c, key} }

// Add adds to the counter and returns the sum.
func (n *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	r, err := n.client.Add(ctx, n.key, delta)
	if err != nil {
		return 0, err
	}
	sum, _ := r.Counter() // Add returns 8 bytes
	return sum, nil
}

// Value reads the counter.
func (n *Counter) Value(ctx context.Context) (int64, error) {
	r, err := n.client.Get(ctx, n.key)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	value, ok := r.Counter()
	if !ok {
		return 0, fmt.Errorf("counter %s: %w", quoteKey(n.key), ErrNotCounter)
	}
	return value, nil
}

// Sequencer hands out numbers from 1 on, each once in the whole cluster. Those of one sequencer grow; with a batch of
// 1, those that are asked for one after the other grow across all clients too. Numbers may be left out: the rest of a
// batch that was not used, or the numbers of a write with an unknown outcome.
type Sequencer struct {
	counter *Counter
	batch   int64

	mu         sync.Mutex
	next, last int64
}

// Sequencer makes a sequencer of a key, which it shares with all others of that key. It takes so many numbers at a
// time, 1 to a million: one write for all of them.
func (c *Client) Sequencer(key string, batch int) (*Sequencer, error) {
	if batch < 1 || batch > 1_000_000 {
		return nil, fmt.Errorf("%w: a sequencer takes 1 to 1,000,000 numbers at a time, not %d", ErrBadRequest, batch)
	}
	return &Sequencer{counter: c.Counter(key), batch: int64(batch), next: 1}, nil
}

// Next returns the next number.
func (s *Sequencer) Next(ctx context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next > s.last {
		last, err := s.counter.Add(ctx, s.batch)
		if errors.Is(err, ErrOutcomeUnknown) && passing(err) && ctx.Err() == nil {
			continue // numbers that it took are skipped
		}
		if err != nil {
			return 0, err
		}
		s.next, s.last = last-s.batch+1, last
	}
	s.next++
	return s.next - 1, nil
}
