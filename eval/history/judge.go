package history

import (
	"math"
	"slices"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Pair has the values of both commits in one round.
type Pair struct{ Before, After float64 }

// Verdict is what rounds say about a change.
type Verdict string

// The verdicts.
const (
	NoStep  Verdict = "no step"
	IsStep  Verdict = "step"
	Unclear Verdict = "unclear" // the median says step, but not all rounds do
)

// Judgement is the change of a timed figure.
type Judgement struct {
	Least   float64 `json:"least"` // of After/Before in a round
	Median  float64 `json:"median"`
	Most    float64 `json:"most"`
	Verdict Verdict `json:"verdict"`
}

// MinRounds are needed for a step: all rounds of two equal programs are on the same side by chance once in 16 times.
const MinRounds = 5

// Judge names a step if the median of the rounds' ratios differs from 1 by more than [Threshold], and all of them
// lie on its side of 1.
func Judge(pairs []Pair) Judgement {
	var ratios []float64
	for _, p := range pairs {
		ratios = append(ratios, 1+change(p.Before, p.After))
	}
	if len(ratios) == 0 {
		return Judgement{Verdict: Unclear}
	}
	j := Judgement{slices.Min(ratios), statistics.Median(ratios), slices.Max(ratios), Unclear}
	oneSided := j.Least > 1 || j.Most < 1
	switch {
	case math.Abs(j.Median-1) <= Threshold:
		j.Verdict = NoStep
	case oneSided && len(pairs) >= MinRounds:
		j.Verdict = IsStep
	}
	return j
}
