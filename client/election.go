package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Leader is the leader in an election's record. A leader that is gone stays there until another one
// has taken over.
type Leader struct {
	Value string // the value of its campaign; empty with a token of 0: there is no leader
	Token uint64 // its fencing token: another leader has a greater one
}

// Leadership is won in an election. It is a lock: it has to be watched, by Done, and its token fences the leaders
// before it.
type Leadership struct{ *Lock }

// Campaign waits until this candidate is elected. Others see value, such as an address, of at most 256 bytes. The
// options' note is not used.
func (c *Client) Campaign(ctx context.Context, election, value string, o LockOptions) (*Leadership, error) {
	o.Note = value
	l, err := c.Lock(ctx, election, o)
	if err != nil {
		return nil, err
	}
	return &Leadership{l}, nil
}

// Resign gives the leadership back.
func (l *Leadership) Resign(ctx context.Context) error { return l.Unlock(ctx) }

// Leader returns the present leader.
func (c *Client) Leader(ctx context.Context, election string) (Leader, error) {
	found, err := c.lookAt(ctx, election)
	if err != nil || found.record.Owner == "" {
		return Leader{}, err
	}
	return Leader{found.record.Note, found.token()}, nil
}

// observeEvery is the longest time between a change and its observation, two lost messages aside.
const observeEvery = 50 * time.Millisecond

// Observe calls changed with the present leader and with every other one seen from then on, until ctx ends, whose error
// it returns, or an error that will not pass. Leaders of a short time may be missed.
func (c *Client) Observe(ctx context.Context, election string, changed func(Leader)) error {
	var last Leader
	for first := true; ; {
		now, err := c.Leader(ctx, election)
		switch {
		case err == nil && (first || now.Token != last.Token):
			first, last = false, now
			changed(now)
		case err != nil && !passing(err) && ctx.Err() == nil:
			return err
		}
		if !sleep(ctx, observeEvery/2+rand.N(observeEvery/2)) {
			return ctx.Err()
		}
	}
}
