// Package retry spaces the attempts of an operation that is repeated until it succeeds.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses double from one attempt to the next, between two bounds, and are spread by half so that processes that failed
// together do not repeat together.
type Pauses struct{ next backoff.ExponentialBackOff }

// Between returns pauses between two bounds.
func Between(least, most time.Duration) *Pauses {
	p := &Pauses{backoff.ExponentialBackOff{
		InitialInterval: least, MaxInterval: most, Multiplier: 2, RandomizationFactor: 0.5,
	}}
	p.Reset()
	return p
}

// Reset makes the next pause the shortest one, after an attempt that succeeded.
func (p *Pauses) Reset() { p.next.Reset() }

// Wait pauses, and reports whether ctx is still alive.
func (p *Pauses) Wait(ctx context.Context) bool { return Sleep(ctx, p.next.NextBackOff()) }

// Sleep pauses for d, and reports whether ctx is still alive.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
