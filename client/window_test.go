package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	for _, p := range c.pipes.all {
		p.mu.Lock()
		if free := len(p.free); free != window {
			t.Errorf("%d slots free of %d", free, window)
		}
		p.mu.Unlock()
	}
}

// Callers of Do have sockets of their own until there is one for each CPU; then they share the one that the fewest use.
func TestCallersHaveSockets(t *testing.T) {
	c := newClient(t, Options{Cluster: startCluster(t, 1, 1).cluster})
	c.pipes.most = 3
	var all []*pipeline
	for range c.pipes.most {
		p, err := c.pipes.quietest(c)
		if err != nil || slices.Contains(all, p) {
			t.Fatalf("%d callers: socket %p of %v, %v", len(all), p, all, err)
		}
		if made := len(c.pipes.conns); made != c.pipes.most {
			t.Fatalf("%d sockets are made with the first, not %d", made, c.pipes.most)
		}
		all = append(all, p)
	}
	if p, err := c.pipes.first(c); p != all[0] || err != nil {
		t.Errorf("single operations have socket %p of %v, %v", p, all, err)
	}
	all[1].release()
	for _, want := range []*pipeline{all[1], all[0]} {
		if p, err := c.pipes.quietest(c); p != want || err != nil {
			t.Errorf("another caller has socket %p, not %p of %v, %v", p, want, all, err)
		}
	}
	c.Close()
	if _, err := c.pipes.quietest(c); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
