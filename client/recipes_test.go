package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestElection(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	one, other := newClient(t, Options{Cluster: nodes.cluster}), newClient(t, Options{Cluster: nodes.cluster})
	ctx := soon(t)
	if leader, err := one.Leader(ctx, "e"); err != nil || leader != (Leader{}) {
		t.Fatalf("nobody yet: %+v, %v", leader, err)
	}
	seen := make(chan Leader)
	observing, stop := context.WithCancel(ctx)
	observed := make(chan error)
	go func() { observed <- other.Observe(observing, "e", func(l Leader) { seen <- l }) }()
	if got := <-seen; got != (Leader{}) {
		t.Errorf("first observed: %+v", got)
	}
	var before uint64
	for i, c := range []*Client{one, other, one} {
		name := fmt.Sprint("candidate ", i)
		l, err := c.Campaign(ctx, "e", name, LockOptions{})
		if err != nil || l.Token() <= before {
			t.Fatalf("%s: %v, token after %d", name, err, before)
		}
		if got := <-seen; got != (Leader{name, l.Token()}) {
			t.Errorf("observed %+v, elected %s with token %d", got, name, l.Token())
		}
		if got, err := other.Leader(ctx, "e"); err != nil || got != (Leader{name, l.Token()}) {
			t.Errorf("read %+v, %v", got, err)
		}
		before = l.Token()
		if err := l.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != (Leader{}) {
			t.Errorf("after %s resigned: %+v", name, got)
		}
	}
	stop()
	if err := <-observed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCounter(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	n := c.Counter("n")
	if v, err := n.Value(ctx); v != 0 || err != nil {
		t.Fatal(v, err)
	}
	if v, err := n.Add(ctx, -5); v != -5 || err != nil {
		t.Fatal(v, err)
	}
	if v, err := n.Value(ctx); v != -5 || err != nil {
		t.Fatal(v, err)
	}
	if _, err := c.Put(ctx, "n", []byte("word")); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Value(ctx); !errors.Is(err, ErrNotCounter) {
		t.Fatal(err)
	}
	if _, err := n.Add(ctx, 1); !errors.Is(err, ErrNotCounter) {
		t.Fatal(err)
	}
}

// Numbers are unique and grow at each caller, on a bad network too.
func TestSequencer(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	w.set(badNetwork)
	resync(t, w.planes)
	c, ctx := newClient(t, Options{Cluster: w.cluster}), soon(t)
	var mu sync.Mutex
	seen := make(map[int64]bool)
	var group sync.WaitGroup
	for i := range 4 {
		s, err := c.Sequencer("s", 1+3*i)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for last := int64(0); last < 60; {
				n, err := s.Next(ctx)
				mu.Lock()
				if err != nil || n <= last || seen[n] {
					t.Errorf("%d after %d: %v", n, last, err)
				}
				seen[n], last = true, n
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if _, err := c.Sequencer("s", 0); !errors.Is(err, ErrBadRequest) {
		t.Error(err)
	}
}

func TestBarrier(t *testing.T) {
	const parties, rounds = 4, 5
	nodes := startCluster(t, 2, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	var mu sync.Mutex
	arrived := 0
	var group sync.WaitGroup
	for range parties {
		b, err := c.Barrier("b", parties)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for round := range int64(rounds) {
				mu.Lock()
				arrived++
				mu.Unlock()
				got, err := b.Wait(ctx)
				mu.Lock()
				if err != nil || got != round || arrived < (int(round)+1)*parties {
					t.Errorf("round %d: %d, %v, %d arrived", round, got, err, arrived)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if _, err := c.Barrier("b", 0); !errors.Is(err, ErrBadRequest) {
		t.Error(err)
	}
	b, err := c.Barrier("b", parties)
	if err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Wait(impatient); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
