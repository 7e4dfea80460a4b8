package peer

import (
	"errors"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestNetChain runs the peers' workloads on NetChain as published, also over lossy links.
func TestNetChain(t *testing.T) {
	roottest.Need(t)
	s, err := Open(t.Context(), NetChain, Options{Lossy: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	if _, err := s.Get(ctx, "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a key without a value: %v", err)
	}
	testVersions(t, s)
	testLock(t, s)
	for _, loss := range []float64{0, 5} {
		if err := s.SetLoss(loss); err != nil {
			t.Fatal(err)
		}
		for _, op := range []Op{Get, Put, CAS, LockUnlock} {
			r, err := Run(ctx, s, Load{Op: op, Clients: 2, Keys: 10, Duration: 300 * time.Millisecond, Seed: 3})
			if err != nil || r.Operations == 0 {
				t.Errorf("%v at %v %% loss: %+v, %v", op, loss, r, err)
			}
			t.Logf("%v at %v %% loss: %.0f/s, p50 %.0f us, p99 %.0f us, %d errors: %s",
				op, loss, r.PerSecond, r.P50us, r.P99us, r.Errors, r.FirstError)
		}
	}
}

// testVersions is testSwap for a store that keeps versions but no values.
func testVersions(t *testing.T, s Store) {
	t.Helper()
	first, swapped, err := s.CompareAndSwap(t.Context(), "swap", 0, nil)
	if err != nil || !swapped {
		t.Fatalf("%v, %v", swapped, err)
	}
	if now, swapped, err := s.CompareAndSwap(t.Context(), "swap", 0, nil); err != nil || swapped || now != first {
		t.Fatalf("%v, now %d, was %d: %v", swapped, now, first, err)
	}
	if now, swapped, err := s.CompareAndSwap(t.Context(), "swap", first, nil); err != nil || !swapped || now == first {
		t.Fatalf("%v, now %d, was %d: %v", swapped, now, first, err)
	}
}
