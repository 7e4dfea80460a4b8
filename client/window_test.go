package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Calls of all kinds share a window that is too small for them: each ends, and none keeps a slot.
func TestSmallWindow(t *testing.T) {
	const window = 5
	w := newNetwork(t, 2, testNodeOptions(1))
	resync(t, w.planes)
	c := newClient(t, Options{Cluster: w.cluster, Window: window, Attempt: 5 * time.Millisecond})
	w.set(faults{loss: 0.02})
	ctx := soon(t)
	ended := make(chan error, 1000)
	var group sync.WaitGroup
	for i := range 20 {
		key := fmt.Sprint("key ", i)
		group.Go(func() {
			for range 10 {
				for _, o := range c.Do(ctx, []Op{PutOp(key, nil), GetOp(key), GetOp(""), DeleteOp(key), GetOp(key),
					CASOp(key, 1, nil), GetOp(key)}) {
					if errors.Is(o.Err, ErrTimeout) || errors.Is(o.Err, ErrClosed) {
						t.Errorf("do: %v", o.Err)
					}
				}
			}
		})
		group.Go(func() {
			for range 20 {
				if _, err := c.Get(ctx, key); err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("get: %v", err)
				}
			}
		})
		group.Go(func() {
			for n := range 20 {
				short, cancel := context.WithTimeout(ctx, time.Duration(n)*200*time.Microsecond)
				c.Start(short, GetOp(key), func(_ Result, err error) { ended <- err })
				cancel()
			}
		})
	}
	group.Wait()
	for range 20 * 20 {
		if err := <-ended; err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTimeout) &&
			!errors.Is(err, context.Canceled) {
			t.Errorf("start: %v", err)
		}
	}
	c.pipes.pipe.mu.Lock()
	defer c.pipes.pipe.mu.Unlock()
	if free := len(c.pipes.pipe.free); free != window {
		t.Errorf("%d slots free of %d", free, window)
	}
}
