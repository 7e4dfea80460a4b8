package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// A write is not sent again after the machine slept for longer than nodes are sure to remember it.
func TestSleepEndsWrites(t *testing.T) {
	const limit = wire.MaxRetryS * time.Second
	w := newNetwork(t, 2, testNodeOptions(1))
	w.set(faults{down: true})
	for _, test := range []struct {
		name     string
		op       Op
		looks    []time.Duration // the boot clock whenever the client looks at it
		attempts int
	}{
		{"a write after a long sleep", PutOp("k", nil), []time.Duration{time.Hour, time.Hour + limit + 1}, 1},
		{"a write after a short sleep", PutOp("k", nil), []time.Duration{time.Hour, time.Hour + limit,
			time.Hour + limit + 1}, 2},
	} {
		for where, do := range map[string]func(*Client) error{
			"alone":      func(c *Client) error { _, err := c.run(t.Context(), &test.op); return err },
			"in a batch": func(c *Client) error { return c.Do(t.Context(), []Op{test.op})[0].Err },
		} {
			c := newClient(t, Options{Cluster: w.cluster, Attempt: 5 * time.Millisecond, Timeout: time.Second})
			var looks atomic.Int32
			c.bootTime = func() time.Duration { return test.looks[min(int(looks.Add(1)), len(test.looks))-1] }
			err := do(c)
			failed := new(OpError)
			if !errors.As(err, &failed) || failed.Attempts != test.attempts || !errors.Is(err, ErrOutcomeUnknown) ||
				!errors.Is(err, ErrTimeout) {
				t.Errorf("%s, %s: %v; want the end after %d attempts", test.name, where, err, test.attempts)
			}
			if len(c.sessions.idle) != 0 {
				t.Errorf("%s, %s: the session would be used again", test.name, where)
			}
		}
	}
}

// Reads may be repeated after any sleep.
func TestSleepLeavesReads(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	c := newClient(t, Options{Cluster: nodes.cluster})
	c.bootTime = func() time.Duration { t.Error("a read looked at the clock"); return 0 }
	if _, err := c.Get(soon(t), "k"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	nodes.planes[0].Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}

func TestBootTime(t *testing.T) {
	if before := bootTime(); before <= 0 || bootTime() < before {
		t.Errorf("the clock went from %v to %v", before, bootTime())
	}
}

// TestPauseEndsWrites: a virtual machine was paused for longer than nodes are sure to remember a write. Its boot clock
// stood still; its wall clock was corrected.
func TestPauseEndsWrites(t *testing.T) {
	w := newNetwork(t, 2, testNodeOptions(1))
	w.set(faults{down: true})
	c := newClient(t, Options{Cluster: w.cluster, Attempt: 5 * time.Millisecond, Timeout: time.Minute})
	began := c.bootTime()
	c.bootTime = func() time.Duration { return began }
	c.wallTime = func() time.Duration { return wallTime() + 2*wire.MaxRetryS*time.Second }
	_, err := c.Put(t.Context(), "k", nil)
	failed := new(OpError)
	if !errors.As(err, &failed) || failed.Attempts != 1 || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%v; want the end after one attempt", err)
	}
}

// TestCloneDrawsSessions: after the clocks of a machine moved apart, neither an idle session is used again nor one whose
// write is still under way, since a copy of this client may have them too.
func TestCloneDrawsSessions(t *testing.T) {
	var s sessions
	const apart = 20 * 365 * 24 * time.Hour
	first, second := s.take(0, apart), s.take(0, apart+maxApart/2)
	s.release(first)
	if again := s.take(0, apart); again != first || again.seq != 2 {
		t.Errorf("without a jump session %+v is taken, not %+v", again, first)
	}
	s.release(first)
	for _, jumped := range []time.Duration{apart + time.Hour, apart} {
		fresh := s.take(0, jumped)
		if fresh.id == first.id || fresh.id == second.id {
			t.Fatalf("session %x of before the jump is used", fresh.id)
		}
		s.release(second) // its write ended after the jump
		if next := s.take(0, jumped); next.id == second.id {
			t.Fatalf("session %x of a write during the jump is used", next.id)
		}
		first = fresh
		s.release(fresh)
	}
}
