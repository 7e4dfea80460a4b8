package keyspacesim

import (
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
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
	t.Logf("%d seeds: %d reads, %d writes, %d unknown, %d recoveries, %d eras, %d losses, %d steps, %v, %v", total.Seeds,
		total.Reads, total.Writes, total.Unknown, total.Recoveries, total.Eras, total.Losses, total.Steps, total.Simulated,
		total.FaultCounts())
	if total.Violations > 0 {
		t.Errorf("%d violations %v, first %d\n%s", total.Violations, total.Kinds, total.First, wrong(t, Draw(total.First)))
	}
	for f, n := range total.FaultCounts() {
		if n == 0 && *seeds >= 100 {
			t.Errorf("no %s in %d seeds", f, *seeds)
		}
	}
}

// TestDisksGivenUp: after a majority of the disks was lost and given up, the keyspace goes on. All gateways agree on what is
// left, and none answers from what was before.
func TestDisksGivenUp(t *testing.T) {
	draw := func(seed uint64) Config {
		c := Draw(seed)
		c.GiveUp = 150 * time.Millisecond
		return c
	}
	const most = 5000 // seeds, until entries are lost
	for first, some := *firstSeed, max(1, *seeds/3); first < *firstSeed+most; first += some {
		total := Many(t.Context(), Options{First: first, Seeds: some, Jobs: 2, Draw: draw, Report: func(*Total) {}})
		t.Logf("%d seeds from %d on: %d reads, %d writes, %d eras, %d times given up, %d entries dropped", total.Seeds, first,
			total.Reads, total.Writes, total.Eras, total.GivenUp, total.Dropped)
		if total.Violations > 0 {
			t.Fatalf("%d violations %v, first %d\n%s", total.Violations, total.Kinds, total.First, wrong(t, draw(total.First)))
		}
		if total.GivenUp > 0 && total.Dropped > 0 {
			return
		}
	}
	t.Errorf("nothing was lost in %d seeds", most)
}

// TestRulesAreNeeded finds an answer that no linearizable store gives when a rule is switched off, within any 5,000
// seeds: the mix of faults is drawn for that, not the seeds.
func TestRulesAreNeeded(t *testing.T) {
	t.Logf("seeds from %d on", *firstSeed)
	for _, name := range core.RuleNames() {
		t.Run(name, func(t *testing.T) {
			without, err := seeded.ParseRule[core.Rule](core.RuleNames(), name)
			if err != nil {
				t.Fatal(err)
			}
			for seed := *firstSeed; seed < *firstSeed+5000; seed++ {
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
			t.Fatalf("seeds %d to %d show no violation without %s", *firstSeed, *firstSeed+4999, name)
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

// TestLateCallsAreOfTheirEpoch: in these runs an operation whose caller had given up reached a shard after the shard had
// lost its state. The chain refuses it, because it is of an earlier epoch.
func TestLateCallsAreOfTheirEpoch(t *testing.T) {
	for _, seed := range []uint64{641241, 647814} {
		if said := wrong(t, Draw(seed)); said != "" {
			t.Errorf("seed %d:\n%s", seed, said)
		}
	}
}
