package usl

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Options say how intervals are found. The zero value gives 95 % from 400 resamples.
type Options struct {
	Confidence float64 // 0 to 1; 0: 0.95
	Resamples  int     // 0: 400
	Seed       uint64
}

// Interval holds a parameter with the confidence asked for.
type Interval struct {
	Low  float64  `json:"low"`
	High *float64 `json:"high"` // nil: unbounded, as the peak of a curve that does not level off
}

// Text is the interval in words, with its numbers as the function writes them.
func (i Interval) Text(number func(float64) string) string {
	if i.High == nil {
		return number(i.Low) + " or more"
	}
	return number(i.Low) + " to " + number(*i.High)
}

// Intervals are those of a fitted law, and of its peak.
type Intervals struct {
	Confidence float64  `json:"confidence"`
	Seed       uint64   `json:"seed"`
	Lambda     Interval `json:"lambda"`
	Sigma      Interval `json:"sigma"`
	Kappa      Interval `json:"kappa"`
	Peak       Interval `json:"peak_nodes"`
}

// bootstrap refits the law to itself plus its resampled residuals, many times, and returns
// quantiles of the parameters.
//
// The Jacobian would be faster, but its intervals are symmetric: they exceed the bounds (sigma and
// kappa below 0) and give no interval of the peak where kappa is near 0. Residuals are resampled
// rather than points because the numbers of nodes are chosen, and are so few that resampled points
// often miss those that fix a parameter. Residuals are relative to the law's throughput, because
// the variance grows with it, and are scaled up for the three fitted parameters.
func (o Options) bootstrap(points []Point, law Law) *Intervals {
	confidence, resamples := o.Confidence, o.Resamples
	if confidence == 0 {
		confidence = 0.95
	}
	if resamples == 0 {
		resamples = 400
	}
	residuals := make([]float64, len(points))
	inflate := math.Sqrt(float64(len(points)) / float64(len(points)-parameters))
	for i, p := range points {
		residuals[i] = (p.PerSecond/law.At(p.Nodes) - 1) * inflate
	}
	mean := stat.Mean(residuals, nil)
	random := rand.New(rand.NewPCG(o.Seed, 0))
	var lambda, sigma, kappa, peak []float64
	drawn := slices.Clone(points)
	for range resamples {
		for i, p := range points {
			factor := 1 + residuals[random.IntN(len(residuals))] - mean
			drawn[i].PerSecond = law.At(p.Nodes) * max(factor, math.SmallestNonzeroFloat32)
		}
		again := leastSquares(drawn)
		lambda, sigma, kappa = append(lambda, again.Lambda), append(sigma, again.Sigma), append(kappa, again.Kappa)
		peak = append(peak, peakOrInfinity(again))
	}
	return &Intervals{
		Confidence: confidence,
		Seed:       o.Seed,
		Lambda:     interval(lambda, confidence),
		Sigma:      interval(sigma, confidence),
		Kappa:      interval(kappa, confidence),
		Peak:       interval(peak, confidence),
	}
}

// level is so little kappa that no number of nodes that exists would show the peak.
const level = 1e-9

func peakOrInfinity(l Law) float64 {
	if n, ok := l.Peak(); ok && l.Kappa > level {
		return n
	}
	return math.Inf(1)
}

// interval cuts the same part off both ends.
func interval(values []float64, confidence float64) Interval {
	slices.Sort(values)
	tail := (1 - confidence) / 2
	i := Interval{Low: stat.Quantile(tail, stat.Empirical, values, nil)}
	if high := stat.Quantile(1-tail, stat.Empirical, values, nil); !math.IsInf(high, 0) {
		i.High = &high
	}
	if math.IsInf(i.Low, 0) {
		i.Low = 1 / math.Sqrt(level)
	}
	return i
}
