package papers

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/baseline/sim"
	"github.com/netcraq/netcraq/eval/figure"
)

// losses measures one cell in a round, with a harness of its own as when a run goes on.
func losses(t *testing.T, series string, kind sim.Kind, round int) figure.Sample {
	t.Helper()
	opened, err := openLosses(t.Context(), figure.Env{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	harness := opened.(*lossHarness)
	harness.seeds = 60
	harness.Round(round)
	s, err := harness.Measure(t.Context(), figure.Cell{Series: series, X: float64(slices.Index(sim.Kinds(), kind))}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Seeds follow the round, not the harness: a run that goes on has no seeds twice, and none others
// than one that was not interrupted.
func TestSeedsFollowTheRound(t *testing.T) {
	for round := range 3 {
		first := int(losses(t, netcraqPaper, sim.LostWrite, round).Values["first_seed"])
		if first <= 60*round || first > 60*(round+1) {
			t.Errorf("round %d finds seed %d first", round, first)
		}
	}
}

func TestCongestedNodesFollowTheRound(t *testing.T) {
	draw := func(round int) (all [][]int) {
		next := congestedNodes(round, 2)
		for range 4 {
			all = append(all, next())
		}
		return all
	}
	if !reflect.DeepEqual(draw(1), draw(1)) || reflect.DeepEqual(draw(0), draw(1)) || len(draw(0)[0]) != 2 {
		t.Errorf("rounds 0 and 1 congest %v and %v", draw(0), draw(1))
	}
}

// A counterexample names its protocol, kind and seed, and reports that ours passes with the same
// seed.
func TestCounterexamplesAreRecorded(t *testing.T) {
	s := losses(t, netcraqPaper, sim.StaleRead, 0)
	if len(s.Texts) != 1 {
		t.Fatalf("%d counterexamples", len(s.Texts))
	}
	text := s.Texts[0]
	for _, want := range []string{netcraqPaper, sim.StaleRead.Title(), "(seed ", "NetCRAQ, same seed: nothing is wrong."} {
		if !strings.Contains(text.Title, want) {
			t.Errorf("%q has no %q", text.Title, want)
		}
	}
	if !strings.Contains(text.Text, "This project's protocol, same seed: nothing is wrong.") ||
		strings.Contains(text.Name, ".txt") {
		t.Errorf("%s:\n%s", text.Name, text.Text)
	}
	if s := losses(t, ours, sim.StaleRead, 0); len(s.Texts) != 0 || s.Values["seeds"] != 60 {
		t.Errorf("ours: %+v", s)
	}
}
