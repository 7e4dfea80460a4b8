package history

import (
	"context"
	"maps"
	"slices"
)

// Comparison is a timed figure of two commits.
type Comparison struct {
	Figure string `json:"figure"`
	Judgement
	Rounds []Pair `json:"rounds"`
}

// CompareInTurns measures the timed figures of two trees in turns. Which is first changes with each round.
func CompareInTurns(
	ctx context.Context, before, after *Tree, rounds int, say func(format string, args ...any),
) ([]Comparison, error) {
	all := make(map[string][]Pair)
	for round := range rounds {
		say("round %d of %d", round+1, rounds)
		values := [2]map[string]float64{{}, {}}
		for i := range 2 {
			which := (i + round) % 2
			if err := []*Tree{before, after}[which].run(ctx, ratios, values[which]); err != nil {
				return nil, err
			}
		}
		for figure, v := range values[0] {
			if w, ok := values[1][figure]; ok {
				all[figure] = append(all[figure], Pair{v, w})
			}
		}
	}
	var list []Comparison
	for _, figure := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Comparison{figure, Judge(all[figure]), all[figure]})
	}
	return list, nil
}
