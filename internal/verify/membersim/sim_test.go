package membersim

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

var (
	seeds     = flag.Uint64("seeds", 300, "how many seeds TestSeeds runs")
	firstSeed = flag.Uint64("first-seed", 1, "the first seed of TestRulesAreNeeded")
)

// wrong describes the violation of a run with the end of its trace. It returns "" if there is none.
func wrong(t *testing.T, c Config) string {
	t.Helper()
	r := Trace(c)
	if r.Broken == "" {
		return ""
	}
	var text strings.Builder
	if err := seeded.WriteTrace(&text, r.Trace, 150); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestSeeds(t *testing.T) {
	total := Many(t.Context(), Options{First: 1, Seeds: *seeds, Jobs: 2, Draw: Draw, Report: func(*Total) {}})
	t.Logf("%d seeds: %d operations, %d fast, slow %v, %d unknown, %d views, %d steps, %v, %v", total.Seeds, total.Ops,
		total.Fast, total.Slow, total.Unknown, total.Views, total.Steps, total.Simulated, total.FaultCounts())
	if total.Violations > 0 {
		t.Errorf("%d violations %v, first %d\n%s", total.Violations, total.Kinds, total.First, wrong(t, Draw(total.First)))
	}
	if total.Fast < total.Ops/15 {
		t.Errorf("%d fast reads of %d operations: the chain is hardly tried", total.Fast, total.Ops)
	}
	for f, n := range total.FaultCounts() {
		if n == 0 && *seeds >= 100 {
			t.Errorf("no %s in %d seeds", f, *seeds)
		}
	}
}

// TestRulesAreNeeded finds an answer that no linearizable store gives when a rule is switched off, within any 1,000
// seeds: the mix of faults is drawn for that, not the seeds.
func TestRulesAreNeeded(t *testing.T) {
	t.Logf("seeds from %d on", *firstSeed)
	for _, name := range core.RuleNames() {
		t.Run(name, func(t *testing.T) {
			without, err := seeded.ParseRule[core.Rule](core.RuleNames(), name)
			if err != nil {
				t.Fatal(err)
			}
			for seed := *firstSeed; seed < *firstSeed+1000; seed++ {
				c := Draw(seed)
				c.Without = without
				r := Run(c)
				if r.Broken == "" || strings.HasPrefix(r.Broken, "stuck") {
					continue
				}
				t.Logf("seed %d: %s", seed, r.Broken)
				if why := wrong(t, Draw(seed)); why != "" {
					t.Fatalf("with all rules on: %s", why)
				}
				return
			}
			t.Fatalf("seeds %d to %d show no violation without %s", *firstSeed, *firstSeed+999, name)
		})
	}
}

func TestSameSeedSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		c := Draw(seed)
		if a, b := Run(c), Run(c); !reflect.DeepEqual(a, b) {
			t.Fatalf("two runs of seed %d differ", seed)
		}
	}
}
