package memory

import (
	"context"
	"sync"
)

// barrier makes linearizable reads wait for the batches that were under way when the read began. Other gateways may have
// read such a batch from the log and shown it to watchers, before this gateway has applied it.
type barrier struct {
	mu      sync.Mutex
	begun   uint64 // batches that were appended, or are being
	applied uint64
	waiting []waiting
}

type waiting struct {
	until uint64
	done  chan struct{}
}

// begin counts a batch, before it is appended.
func (b *barrier) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun++
}

// end counts a batch that was applied.
func (b *barrier) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applied++
	n := 0
	for ; n < len(b.waiting) && b.waiting[n].until <= b.applied; n++ {
		close(b.waiting[n].done)
	}
	b.waiting = b.waiting[n:]
}

// wait waits until all batches are applied that were counted before. The error is errNotActive if the term ends.
func (b *barrier) wait(ctx, term context.Context) error {
	b.mu.Lock()
	if b.applied == b.begun {
		b.mu.Unlock()
		return nil
	}
	w := waiting{b.begun, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-term.Done():
		return errNotActive
	case <-ctx.Done():
		return ctx.Err()
	}
}
