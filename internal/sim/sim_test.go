package sim

import (
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/history"
)

var seeds = flag.Uint64("seeds", 2000, "how many seeds TestSeeds runs")

const checkTime = 10 * time.Second

// rough is a chain that loses two of three nodes on a bad network.
func rough(seed uint64) Config {
	return Config{Seed: seed, Nodes: 3, Clients: 4, Keys: 1 + int(seed%2), Ops: 20, Loss: 0.05, Duplicate: 0.05, Failures: 2}
}

// judge returns what is wrong with a run, in words, or "".
func judge(c Config, r *Result) string {
	v := history.Check(r.History, checkTime)
	if r.Broken == nil && v.Linearizable() {
		return ""
	}
	var report strings.Builder
	if err := v.Write(&report); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v\nbroken invariant: %v\n%s", c, r.Broken, report.String())
}

// TestSeeds runs chains of 3 and 4 nodes on better and worse networks.
func TestSeeds(t *testing.T) {
	var ops, steps, repairs int
	for seed := range *seeds {
		c := rough(seed)
		c.Nodes, c.Relay = 3+int(seed%2), seed%5 == 0
		c.Loss, c.Duplicate, c.Failures = float64(seed%10)/100, float64(seed%7)/100, int(seed%4)
		r := Run(c)
		if wrong := judge(c, r); wrong != "" {
			t.Fatal(wrong)
		}
		ops, steps, repairs = ops+len(r.History), steps+r.Steps, repairs+r.Repairs
	}
	t.Logf("seeds 0 to %d: %d operations, %d steps, %d repairs", *seeds-1, ops, steps, repairs)
}

// TestProperty lets rapid choose, and make smaller, what is simulated.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Seed:      rapid.Uint64().Draw(t, "seed"),
			Nodes:     rapid.IntRange(1, 5).Draw(t, "nodes"),
			Clients:   rapid.IntRange(1, 6).Draw(t, "clients"),
			Keys:      rapid.IntRange(1, 3).Draw(t, "keys"),
			Ops:       rapid.IntRange(1, 30).Draw(t, "ops"),
			Loss:      float64(rapid.IntRange(0, 20).Draw(t, "loss in %")) / 100,
			Duplicate: float64(rapid.IntRange(0, 20).Draw(t, "duplication in %")) / 100,
			Failures:  rapid.IntRange(0, 4).Draw(t, "failures"),
			Relay:     rapid.Bool().Draw(t, "relay"),
		}
		if wrong := judge(c, Run(c)); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// TestRulesAreNeeded switches one rule off and finds a history that no linearizable store can have produced.
func TestRulesAreNeeded(t *testing.T) {
	for _, c := range []struct {
		name string
		rule chain.Rule
		seed uint64
	}{{"W2", chain.W2, 0}, {"W5", chain.W5, 1}, {"W8", chain.W8, 60}} {
		t.Run(c.name, func(t *testing.T) {
			config := rough(c.seed)
			if wrong := judge(config, Run(config)); wrong != "" {
				t.Fatalf("with all rules on: %s", wrong)
			}
			config.Without = c.rule
			if history.Check(Run(config).History, checkTime).Linearizable() {
				t.Fatalf("seed %d shows no violation without %s: find another seed", c.seed, c.name)
			}
		})
	}
}

// TestFoundBugs repeats the runs that found something: docs/track-record.md.
func TestFoundBugs(t *testing.T) {
	for _, seed := range []uint64{
		3035, 3296, // a frozen new tail answered dirty reads while the old tail still held its lease
	} {
		c := rough(seed)
		if wrong := judge(c, Run(c)); wrong != "" {
			t.Error(wrong)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	if c := rough(7); !reflect.DeepEqual(Run(c), Run(c)) {
		t.Fatal("two runs of one configuration differ")
	}
}
