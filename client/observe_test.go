package client

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// The observer is called once at the beginning and once at the end of every operation, on all paths.
func TestObserver(t *testing.T) {
	nodes := startCluster(t, 3, 4)
	type entry struct{ begun, ended, failed int }
	var mu sync.Mutex
	seen := make(map[string]entry)
	type mark struct{}
	observe := func(ctx context.Context, op *Op) func(Result, error) {
		if ctx.Value(mark{}) == nil {
			t.Errorf("%s: the context is not the caller's", op.Key)
		}
		id := op.Name() + " " + op.Key
		mu.Lock()
		defer mu.Unlock()
		e := seen[id]
		e.begun++
		seen[id] = e
		if op.Key == "ignored" {
			return nil
		}
		return func(_ Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			e := seen[id]
			e.ended++
			if err != nil {
				e.failed++
			}
			seen[id] = e
		}
	}
	c, ctx := newClient(t, Options{Cluster: nodes.cluster, Observe: observe}), context.WithValue(soon(t), mark{}, true)
	if _, err := c.Put(ctx, "text", []byte("text")); err != nil {
		t.Fatal(err)
	}
	c.Put(ctx, "ignored", nil)
	if _, err := c.Add(ctx, "text", 1); !errors.Is(err, ErrNotCounter) {
		t.Fatal(err)
	}
	c.Put(ctx, "", nil) // never sent
	c.Do(ctx, []Op{GetOp("text"), DeleteOp("gone"), PutOp("", nil)})
	started := make(chan struct{})
	c.Start(ctx, AddOp("count", 1), func(Result, error) { close(started) })
	<-started
	mu.Lock()
	defer mu.Unlock()
	for id, want := range map[string]entry{
		"put text": {1, 1, 0}, "put ignored": {1, 0, 0}, "add text": {1, 1, 1}, "put ": {2, 2, 2}, "get text": {1, 1, 0},
		"delete gone": {1, 1, 0}, "add count": {1, 1, 0},
	} {
		if seen[id] != want {
			t.Errorf("%s: %+v, want %+v", id, seen[id], want)
		}
	}
}
