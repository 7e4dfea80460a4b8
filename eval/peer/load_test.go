package peer

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/netcraq/netcraq/eval/statistics"
)

func TestWrongLoadsAreRefused(t *testing.T) {
	for name, l := range map[string]Load{
		"no operation":             {},
		"an unknown one":           {Op: "scan"},
		"a negative number":        {Op: Get, Clients: -1},
		"a pipeline of locks":      {Op: LockUnlock, Pipeline: 2},
		"a pipeline at a rate":     {Op: Get, Pipeline: 2, PerSecond: 10},
		"fewer keys than clients":  {Op: Get, Clients: 9, Keys: 8},
		"a value for no datagram":  {Op: Put, ValueBytes: 5000},
		"a negative time":          {Op: Get, Duration: -time.Second},
		"an exponent out of range": {Op: Get, Zipf: 7},
	} {
		if l.Check() == nil {
			t.Errorf("%s: %+v is taken", name, l)
		}
	}
	if err := (&Load{Op: Get, Zipf: 0.99, Clients: 5000 / 10, Keys: 10}).Check(); err != nil {
		t.Error(err)
	}
}

// TestHotKeysAreHot checks shares of the requests. Of 1000 keys with an exponent of 0.99 the first
// gets 1 / (1 + 1/2^0.99 + ... + 1/1000^0.99), the hundred most popular about two thirds.
func TestHotKeysAreHot(t *testing.T) {
	l := Load{Op: Get, Keys: 1000}
	const draws = 200_000
	count := func(exponent float64) (first, hundred float64) {
		d := drawer{rng: rand.New(rand.NewPCG(1, 2)), names: l.names(), step: 1}
		if exponent != 0 {
			d.ranks = statistics.NewZipf(l.Keys, exponent)
		}
		for range draws {
			k := d.draw()
			if k < 0 || k >= l.Keys {
				t.Fatalf("key %d", k)
			}
			if k == 0 {
				first++
			}
			if k < 100 {
				hundred++
			}
		}
		return first / draws, hundred / draws
	}
	if first, hundred := count(0.99); first < 0.120 || first > 0.140 || hundred < 0.66 || hundred > 0.72 {
		t.Errorf("the first key gets %.3f, the first hundred %.3f", first, hundred)
	}
	if first, hundred := count(0); first > 0.002 || hundred < 0.095 || hundred > 0.105 {
		t.Errorf("all alike: the first key gets %.4f, the first hundred %.3f", first, hundred)
	}
	mine := drawer{rng: rand.New(rand.NewPCG(1, 2)), names: l.names(), from: 3, step: 7}
	for range 1000 {
		if k := mine.draw(); k%7 != 3 || k >= l.Keys {
			t.Fatalf("key %d is another client's", k)
		}
	}
}

// slow is a store that answers after a delay and fails occasionally.
type slow struct {
	Store
	takes time.Duration
	fails bool
}

func (s *slow) Name() string { return "slow" }

func (s *slow) Get(ctx context.Context, _ string) ([]byte, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.fails {
		return nil, errors.New("out of order")
	}
	return valueOf(16), nil
}

func (s *slow) Put(context.Context, string, []byte) error { return nil }

// TestLateOperationsCountFromWhenTheyWereDue expects latencies to include the time that requests
// wait for a client that has fallen behind its rate. All tests of slow stores use a synctest clock,
// so the machine's scheduling does not matter.
func TestLateOperationsCountFromWhenTheyWereDue(t *testing.T) { synctest.Test(t, lateOperations) }

func lateOperations(t *testing.T) {
	const takes = 20 * time.Millisecond
	s := &slow{takes: takes}
	r, err := Run(t.Context(), s, Load{Op: Get, PerSecond: 200, Duration: 300 * time.Millisecond,
		WarmUp: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.MaxUs < 5*takes.Seconds()*1e6 {
		t.Errorf("the slowest of 200 a second at 50 a second took %.0f µs", r.MaxUs)
	}
	r, err = Run(t.Context(), s, Load{Op: Get, Duration: 300 * time.Millisecond, WarmUp: time.Millisecond})
	if err != nil || r.P50us < takes.Seconds()*1e6 || r.PerSecond > 50 {
		t.Errorf("one after the other: %+v, %v", r, err)
	}
}

// TestPausesAreWaitedFor expects a second, longer attempt if no operation ends within the time, as
// during a server's pause.
func TestPausesAreWaitedFor(t *testing.T) { synctest.Test(t, pausesAreWaitedFor) }

func pausesAreWaitedFor(t *testing.T) {
	r, err := Run(t.Context(), &slow{takes: 60 * time.Millisecond}, Load{Op: Get, Duration: 40 * time.Millisecond,
		WarmUp: time.Millisecond})
	if err != nil || r.Operations == 0 || r.PerSecond > 20 {
		t.Errorf("operations of 60 ms in 40 ms: %+v, %v", r, err)
	}
	if _, err := Run(t.Context(), &slow{takes: time.Second},
		Load{Op: Get, Duration: 10 * time.Millisecond}); !errors.Is(err, errTooShort) {
		t.Errorf("operations of a second in 10 ms: %v", err)
	}
}

func TestFailuresAreCountedAndNamed(t *testing.T) {
	r, err := Run(t.Context(), &slow{fails: true}, Load{Op: Get, Duration: 20 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "out of order") || r.Errors == 0 || r.Operations != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Run(t.Context(), &slow{}, Load{Op: Get, Pipeline: 4}); err == nil {
		t.Error("a store without pipelines takes a load with one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, &slow{}, Load{Op: Get, Duration: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("a load that was cancelled ends with %v", err)
	}
}

func TestAMissingSystemSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{Redis, Memcached, ZooKeeper} {
		_, err := Open(t.Context(), name, Options{})
		var missing *MissingError
		if !errors.As(err, &missing) || missing.System != name || !strings.Contains(err.Error(), "scripts/peers.sh "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join("..", "..", "scripts", "peers.sh")); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), "oracle", Options{}); err == nil || !strings.Contains(err.Error(), Etcd) {
		t.Errorf("an unknown system: %v", err)
	}
	if _, err := Open(t.Context(), NetCRAQ, Options{Members: 9}); err == nil {
		t.Error("a chain of nine is taken")
	}
}

func TestTheRateOfRedisBenchmarkIsRead(t *testing.T) {
	const csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET key-__rand_int__\",\"123456.78\",\"0.1\"\n"
	if rate, err := rateIn(csv); err != nil || rate != 123456.78 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, wrong := range []string{"", "no", "\"a\",\"b\""} {
		if _, err := rateIn(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestP999NeedsTimesBeyondIt(t *testing.T) {
	for _, c := range []struct {
		operations int64
		pipeline   int
		want       bool
	}{{9_999, 1, false}, {10_000, 1, true}, {10_000, 0, true}, {639_999, 64, false}, {640_000, 64, true}} {
		r := Result{Operations: c.operations, Pipeline: c.pipeline}
		if r.KnowsP999() != c.want {
			t.Errorf("%d operations in batches of %d: %v", c.operations, c.pipeline, !c.want)
		}
	}
}
