package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// open opens a system. It skips the test if the system or root is missing.
func open(t *testing.T, name string, o Options) Store {
	t.Helper()
	roottest.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Open(ctx, name, o)
	var missing *MissingError
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSystems checks the contract of Store on every system with real servers.
func TestSystems(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := open(t, name, Options{})
			if s.Name() != name || len(s.Settings()) < 3 {
				t.Errorf("name %q, settings %q", s.Name(), s.Settings())
			}
			t.Run("values", func(t *testing.T) { testValues(t, s) })
			t.Run("swap", func(t *testing.T) { testSwap(t, s) })
			t.Run("lock", func(t *testing.T) { testLock(t, s) })
			t.Run("many", func(t *testing.T) { testMany(t, s) })
			for _, op := range Ops() {
				t.Run("run "+string(op), func(t *testing.T) { testRun(t, s, op) })
			}
		})
	}
}

func testValues(t *testing.T, s Store) {
	ctx := t.Context()
	if value, err := s.Get(ctx, "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a key without a value: %q, %v", value, err)
	}
	for _, value := range []string{"one", "another", strings.Repeat("long", 200)} {
		if err := s.Put(ctx, "k", []byte(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(ctx, "k"); err != nil || string(got) != value {
			t.Errorf("read %q, %v after %q was stored", got, err, value)
		}
	}
}

func testSwap(t *testing.T, s Store) {
	ctx := t.Context()
	swap := func(version Version, value string, want bool) Version {
		t.Helper()
		now, swapped, err := s.CompareAndSwap(ctx, "swap", version, []byte(value))
		if err != nil || swapped != want {
			t.Fatalf("%q for version %d: now %d, %v, %v", value, version, now, swapped, err)
		}
		return now
	}
	first := swap(0, "a", true)
	if now := swap(0, "b", false); now != first {
		t.Errorf("the version is %d after a swap that made it %d", now, first)
	}
	second := swap(first, "c", true)
	if now := swap(first, "d", false); now != second || now == first {
		t.Errorf("the version is %d after swaps that made it %d and %d", now, first, second)
	}
	if err := s.Put(ctx, "swap", []byte("e")); err != nil {
		t.Fatal(err)
	}
	third := swap(second, "f", false)
	swap(third, "g", true)
	if got, err := s.Get(ctx, "swap"); err != nil || string(got) != "g" {
		t.Errorf("read %q, %v", got, err)
	}
}

func testLock(t *testing.T, s Store) {
	ctx := t.Context()
	for range 2 {
		held, err := s.Lock(ctx, "l")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Lock(ctx, "l"); !errors.Is(err, ErrLocked) {
			t.Errorf("a second holder: %v", err)
		}
		other, err := s.Lock(ctx, "other")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(held.Unlock(ctx), other.Unlock(ctx)); err != nil {
			t.Fatal(err)
		}
		if err := held.Unlock(ctx); err == nil && s.Name() != NetCRAQ { // its Unlock may be repeated
			t.Error("a lock was given back twice")
		}
	}
}

func testMany(t *testing.T, s Store) {
	many, ok := s.(Many)
	if !ok {
		t.Skip("one request at a time")
	}
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("many-", i)
	}
	seen := make(map[int]int)
	many.PutMany(t.Context(), keys, []byte("value"), func(i int, err error) {
		seen[i]++
		if err != nil {
			t.Errorf("put %d: %v", i, err)
		}
	})
	many.GetMany(t.Context(), append(keys, "nothing"), func(i int, value []byte, err error) {
		seen[i]++
		if i < len(keys) && (err != nil || string(value) != "value") || i == len(keys) && !errors.Is(err, ErrNotFound) {
			t.Errorf("get %d: %q, %v", i, value, err)
		}
	})
	for i := range keys {
		if seen[i] != 2 {
			t.Errorf("%d answers for key %d", seen[i], i)
		}
	}
}

func testRun(t *testing.T, s Store, op Op) {
	for _, l := range []Load{
		{Op: op, Clients: 4},
		{Op: op, Clients: 4, Zipf: 0.99},
		{Op: op, Clients: 2, PerSecond: 100},
	} {
		l.Keys, l.WarmUp, l.Duration = 40, 20*time.Millisecond, 100*time.Millisecond
		r, err := Run(t.Context(), s, l)
		if err != nil {
			t.Fatal(err)
		}
		if r.Errors > 0 || r.P50us <= 0 || r.P99us < r.P50us || r.P999us < r.P99us || r.MaxUs < r.P50us {
			t.Errorf("%+v: %+v", l, r)
		}
		if l.PerSecond > 0 && r.PerSecond > 1.2*l.PerSecond {
			t.Errorf("%v operations a second of %v offered", r.PerSecond, l.PerSecond)
		}
		t.Logf("%.0f/s, p50 %.0f µs, p99 %.0f µs, %d conflicts", r.PerSecond, r.P50us, r.P99us, r.Conflicts)
	}
}
