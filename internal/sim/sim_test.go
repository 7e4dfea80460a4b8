package sim

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	seeds    = flag.Uint64("seeds", 300, "how many seeds TestSeeds runs")
	xdpSeeds = flag.Uint64("xdp-seeds", 20, "how many seeds TestSeedsOnBytecode runs")
)

// planes are shared by all tests of the package, which run one after the other.
var planes = NewPlanes()

func TestMain(m *testing.M) {
	status := m.Run()
	if err := planes.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// failer is a test, of Go's or of rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func mustRun(t failer, c Config) *Result {
	t.Helper()
	r, err := Run(c, planes)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wrong says what is wrong with a run, with the end of its trace, or nothing.
func wrong(t failer, c Config) string {
	t.Helper()
	if Judge(&c, mustRun(t, c)) == nil {
		return ""
	}
	r, err := Trace(c, planes)
	if err != nil {
		t.Fatal(err)
	}
	v := Judge(&c, r)
	if v == nil {
		return fmt.Sprintf("seed %d failed once, and not again", c.Seed)
	}
	var report strings.Builder
	if err := v.Write(&report, r.Trace, 60); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v\n%s", c, report.String())
}

func runSeeds(t *testing.T, plane Plane, n uint64) {
	total, err := Many(t.Context(), Options{First: 1, Seeds: n, Jobs: runtime.GOMAXPROCS(0), Draw: func(seed uint64) Config {
		c := Draw(seed)
		c.Plane = plane
		return c
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d seeds: %d operations, %d steps, %d reconfigurations", total.Seeds, total.Ops, total.Steps, total.Reconfigurations)
	if total.Violations > 0 {
		c := Draw(total.First)
		c.Plane = plane
		t.Errorf("%d violations, first %s", total.Violations, wrong(t, c))
	}
	for f, count := range total.Faults {
		if count == 0 && n >= 100 {
			t.Errorf("no %v in %d seeds", Fault(f), n)
		}
	}
}

func TestSeeds(t *testing.T) { runSeeds(t, Chain, *seeds) }

func TestSeedsOnBytecode(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs root, which CI has")
		}
		t.Skip("needs root to load BPF programs")
	}
	runSeeds(t, XDP, *xdpSeeds)
}

// TestProperty lets rapid choose, and make smaller, what is simulated.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Draw(rapid.Uint64Range(1, 1<<32).Draw(t, "seed"))
		c.Nodes = rapid.IntRange(1, 6).Draw(t, "nodes")
		c.Early = rapid.IntRange(1, c.Nodes).Draw(t, "early")
		c.Replicas = rapid.IntRange(1, c.Early).Draw(t, "replicas")
		c.Clients = rapid.IntRange(1, 6).Draw(t, "clients")
		c.Keys = rapid.IntRange(1, 3).Draw(t, "keys")
		c.Ops = rapid.IntRange(1, 30).Draw(t, "ops")
		c.Loss = float64(rapid.IntRange(0, 15).Draw(t, "loss in %")) / 100
		c.Duplicate = float64(rapid.IntRange(0, 15).Draw(t, "duplication in %")) / 100
		if why := wrong(t, c); why != "" {
			t.Fatal(why)
		}
	})
}

// TestFoundBugs repeats the runs that found something: docs/track-record.md.
func TestFoundBugs(t *testing.T) {
	for _, seed := range []uint64{
		10, // a learner copied from the tail, and became head without what its successor held
	} {
		if why := wrong(t, Draw(seed)); why != "" {
			t.Error(why)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		if c := Draw(seed); !reflect.DeepEqual(mustRun(t, c), mustRun(t, c)) {
			t.Fatalf("two runs of seed %d differ", seed)
		}
	}
}

func TestTraceChangesNothing(t *testing.T) {
	c := Draw(1)
	plain := mustRun(t, c)
	traced, err := Trace(c, planes)
	if err != nil {
		t.Fatal(err)
	}
	if traced.Trace = nil; !reflect.DeepEqual(plain, traced) {
		t.Fatal("a traced run is another one")
	}
}
