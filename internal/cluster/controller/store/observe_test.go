package store

import (
	"context"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// observe follows the etcd at an address until the test ends.
func observe(t *testing.T, address string) *recorder {
	t.Helper()
	r := newRecorder()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Observe(ctx, "test", address, r) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// An observer is told every change once and in order, those too that were made while its connection was lost.
func TestObserverMissesNothing(t *testing.T) {
	e := alone(t)
	address := e.Client
	s := open(t, Options{Embedded: e})
	form(t, s)
	r := observe(t, address)
	next(t, r.loaded)
	l := lead(t, s, 0)
	told := l.State.Change
	apply := func(l *Leadership, number uint64) {
		t.Helper()
		if err := l.Apply(within(t), reconfig.Change{Number: number, Nodes: []reconfig.Node{node(1)}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(l, told+1)
	for _, number := range []uint64{told, told + 1} {
		if c := next(t, r.changed); c.Number != number {
			t.Fatalf("change %d is told, not %d", c.Number, number)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	e.Client = ""
	s = open(t, Options{Embedded: e})
	l = lead(t, s, 0)
	last := l.State.Change + 1
	apply(l, last)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	e.Client = address
	open(t, Options{Embedded: e})
	for number := told + 2; number <= last; number++ {
		if c := next(t, r.changed); c.Number != number {
			t.Fatalf("after the connection was lost change %d is told, not %d", c.Number, number)
		}
	}
	if len(r.loaded) > 0 {
		t.Error("the whole state was loaded again")
	}
}
