package conformance

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// TestRandomPacketsReachEverything: a stream that misses an outcome compares less than it seems to.
func TestRandomPacketsReachEverything(t *testing.T) {
	const rounds, seed = 100, 1
	seen := map[wire.Outcome]uint64{}
	passed := 0
	for i := range rounds {
		r, reference := newRound(seed, i*packetsPerRound, nil), NewReference()
		if err := r.begin(reference); err != nil {
			t.Fatal(err)
		}
		for range packetsPerRound {
			verdict, frames, err := reference.Step(r.next())
			if err != nil {
				t.Fatal(err)
			}
			if verdict == Pass {
				passed++
				continue
			}
			r.learn(frames)
		}
		state, err := reference.State()
		if err != nil {
			t.Fatal(err)
		}
		for c, n := range state.Counters {
			seen[c.Outcome] += n
		}
	}
	for _, outcome := range wire.Outcomes {
		if chains(outcome) && seen[outcome] == 0 {
			t.Errorf("no packet of %d became %v", rounds*packetsPerRound, outcome)
		}
		t.Logf("%-17v %7d", outcome, seen[outcome])
	}
	t.Logf("%-17s %7d", "passed", passed)
}

// TestCompareFindsADifference compares the reference with one that has a fault, and with itself.
func TestCompareFindsADifference(t *testing.T) {
	o := RandomOptions{Packets: 20_000, Seed: 3}
	if d, err := Compare(t.Context(), NewReference(), o); d != nil || err != nil {
		t.Fatalf("the reference differs from itself: %+v %v", d, err)
	}
	d, err := Compare(t.Context(), forgetful{NewReference()}, o)
	if err != nil || d == nil {
		t.Fatalf("no difference found: %v", err)
	}
	var report strings.Builder
	if err := d.Write(&report); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(report.String(), "of seed 3: verdict drop, want sent") {
		t.Errorf("the report does not tell the difference:\n%s", report.String())
	}
}

// forgetful is a node that sends nothing where it should send three frames.
type forgetful struct{ *Reference }

func (t forgetful) Step(b []byte) (Verdict, [][]byte, error) {
	verdict, frames, err := t.Reference.Step(b)
	if len(frames) == 3 {
		return Drop, nil, err
	}
	return verdict, frames, err
}
