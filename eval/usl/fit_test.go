package usl

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// study is the study's law for serializable reads of etcd.
var study = Law{Lambda: 9215.75, Sigma: 0.54, Kappa: 0.047}

// measured gives rounds of a law at 1 to 11 nodes with relative noise.
func measured(l Law, rounds int, noise float64, random *rand.Rand) (points []Point) {
	for range rounds {
		for _, n := range []float64{1, 2, 3, 4, 5, 7, 9, 11} {
			points = append(points, Point{n, l.At(n) * (1 + noise*random.NormFloat64())})
		}
	}
	return points
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*max(1, math.Abs(b)) }

func TestTheStudysPeakIsNearThree(t *testing.T) {
	if n, ok := study.Peak(); !ok || !near(n, 3.13, 0.002) {
		t.Errorf("peak at %v, %v", n, ok)
	}
	if study.At(3) <= study.At(2) || study.At(3) <= study.At(4) || study.At(1) != study.Lambda {
		t.Errorf("%v, %v, %v", study.At(2), study.At(3), study.At(4))
	}
}

func TestKnownLawsAreFound(t *testing.T) {
	for _, law := range []Law{
		study,
		{8546.83, 0.56, 0.044},
		{1, 0, 0},           // linear
		{100, 0.2, 0},       // Amdahl's
		{3e6, 0, 0.01},      // talk only
		{40, 0.9, 0.5},      // falls from the first node on
		{0.001, 0.3, 0.001}, // slow
	} {
		f, err := Fit(measured(law, 1, 0, rand.New(rand.NewPCG(1, 1))), Options{Resamples: 10})
		if err != nil {
			t.Fatal(err)
		}
		if !near(f.Lambda/law.Lambda, 1, 1e-3) || !near(f.Sigma, law.Sigma, 1e-3) || !near(f.Kappa, law.Kappa, 1e-3) ||
			f.RSquared < 0.999 {
			t.Errorf("%+v became %+v", law, f)
		}
	}
}

// With noise the truth is within intervals of 95 % about that often, and the peak of the study's law
// stays near 3.
func TestIntervalsHoldTheTruth(t *testing.T) {
	const seed, trials = 7, 60
	random := rand.New(rand.NewPCG(seed, seed))
	held := make(map[string]int)
	for range trials {
		f, err := Fit(measured(study, 3, 0.05, random), Options{Seed: random.Uint64(), Resamples: 200})
		if err != nil {
			t.Fatal(err)
		}
		peak, _ := study.Peak()
		for name, c := range map[string]struct {
			in   Interval
			real float64
		}{"lambda": {f.Intervals.Lambda, study.Lambda}, "sigma": {f.Intervals.Sigma, study.Sigma},
			"kappa": {f.Intervals.Kappa, study.Kappa}, "peak": {f.Intervals.Peak, peak}} {
			if c.in.Low <= c.real && (c.in.High == nil || c.real <= *c.in.High) {
				held[name]++
			}
		}
		if n, ok := f.Peak(); !ok || n < 2 || n > 5 {
			t.Errorf("peak at %v, %v", n, ok)
		}
	}
	for _, name := range []string{"lambda", "sigma", "kappa", "peak"} {
		if held[name] < trials*85/100 {
			t.Errorf("seed %d: the interval of %s held the truth in %d of %d trials", seed, name, held[name], trials)
		}
	}
}

func TestTheSeedDecidesIntervals(t *testing.T) {
	points := measured(study, 2, 0.05, rand.New(rand.NewPCG(1, 2)))
	fit := func(seed uint64) *Fitted {
		f, err := Fit(points, Options{Seed: seed, Confidence: 0.9, Resamples: 50})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if a, b := fit(3), fit(3); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v and %+v", a, b)
	}
	if a, b := fit(3), fit(4); reflect.DeepEqual(a.Intervals.Lambda, b.Intervals.Lambda) {
		t.Error("another seed made no difference")
	}
}

// A curve that never levels off has a peak without an upper bound, and is still valid JSON.
func TestALinearSystemHasNoPeak(t *testing.T) {
	f, err := Fit(measured(Law{Lambda: 10}, 3, 0.02, rand.New(rand.NewPCG(5, 6))), Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if f.Intervals.Peak.High != nil {
		t.Errorf("peak within %+v", f.Intervals.Peak)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
	if _, ok := (Law{Lambda: 10, Sigma: 0.1}).Peak(); ok {
		t.Error("Amdahl's law has a peak")
	}
}

func TestThreePointsGiveALawWithoutIntervals(t *testing.T) {
	f, err := Fit([]Point{{1, study.At(1)}, {3, study.At(3)}, {5, study.At(5)}}, Options{})
	if err != nil || f.Intervals != nil || !near(f.Sigma, study.Sigma, 1e-3) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestWhatCannotBeFittedIsRefused(t *testing.T) {
	for name, points := range map[string][]Point{
		"nothing":          nil,
		"two sizes":        {{1, 5}, {1, 6}, {2, 8}, {2, 9}},
		"no nodes":         {{0, 5}, {2, 6}, {3, 7}},
		"no throughput":    {{1, 5}, {2, 0}, {3, 7}},
		"not a number":     {{1, 5}, {2, math.NaN()}, {3, 7}},
		"infinite":         {{1, 5}, {2, math.Inf(1)}, {3, 7}},
		"nodes, no number": {{1, 5}, {math.NaN(), 3}, {3, 7}},
	} {
		if f, err := Fit(points, Options{}); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
