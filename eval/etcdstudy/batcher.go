package etcdstudy

import (
	"context"
	"sync"
	"time"
)

// Pair is a key with its new value.
type Pair struct{ Key, Value string }

// Batcher puts several writes of one client machine into one transaction, as the study proposes. A
// batch goes when it is full, or has waited long enough. Writes are answered when their transaction
// is: nothing is promised before it is durable.
type Batcher struct {
	Size  int           // keys of a batch, 1 or more
	Delay time.Duration // the longest that a write waits for others
	Merge bool          // leave out writes that a later one of the same batch replaces
	// Commit gets the writes of a batch, and how many others they replaced. It may be called many times at once.
	Commit func(pairs []Pair, replaced int) error

	mu      sync.Mutex
	filling *batch
	under   sync.WaitGroup // batches, from their first pair to their answer
}

// batch is a transaction to be. Two writes of one key cannot be in one transaction.
type batch struct {
	pairs    []Pair
	replaced int            // writes that one of the pairs replaced
	at       map[string]int // of keys in pairs
	timer    *time.Timer
	gone     bool          // closed to further puts
	done     chan struct{} // closed when err is set
	err      error
}

// Put writes a pair and waits until it is durable. A write that was left out is answered with the
// one that replaced it: both were under way at the same time, and it counts as done just before.
// Batches may overtake each other for the same reason.
//
// The context ends waiting; the write may still be carried out.
func (b *Batcher) Put(ctx context.Context, p Pair) error {
	joined, full := b.join(p)
	if full != nil {
		b.send(full)
	}
	select {
	case <-joined.done:
		return joined.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join finds a batch for a pair. It also returns a batch that has to go now.
func (b *Batcher) join(p Pair) (joined, full *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filling != nil {
		if i, there := b.filling.at[p.Key]; there && b.Merge {
			b.filling.pairs[i] = p
			b.filling.replaced++
			return b.filling, nil
		} else if there {
			full = b.take()
		}
	}
	if b.filling == nil {
		b.filling = &batch{at: make(map[string]int), done: make(chan struct{})}
		b.under.Add(1)
		if b.Size > 1 {
			waiting := b.filling
			waiting.timer = time.AfterFunc(b.Delay, func() { b.expire(waiting) })
		}
	}
	joined = b.filling
	joined.at[p.Key] = len(joined.pairs)
	joined.pairs = append(joined.pairs, p)
	if len(joined.pairs) >= b.Size {
		full = b.take() // there is no other: a batch of one never waits to be filled
	}
	return joined, full
}

// take takes the batch that is filling; its holder sends it.
func (b *Batcher) take() *batch {
	taken := b.filling
	taken.gone, b.filling = true, nil
	if taken.timer != nil {
		taken.timer.Stop()
	}
	return taken
}

// expire sends a batch that has waited long enough.
func (b *Batcher) expire(waiting *batch) {
	b.mu.Lock()
	mine := !waiting.gone
	if mine {
		b.take()
	}
	b.mu.Unlock()
	if mine {
		b.send(waiting)
	}
}

// send commits a batch in the background.
func (b *Batcher) send(full *batch) {
	go func() {
		defer b.under.Done()
		full.err = b.Commit(full.pairs, full.replaced)
		close(full.done)
	}()
}

// Wait waits until all batches are answered. No put may follow.
func (b *Batcher) Wait() { b.under.Wait() }
