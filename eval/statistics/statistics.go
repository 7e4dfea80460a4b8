// Package statistics has the few statistics that measurements need.
package statistics

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Quantile returns the smallest of the sorted values that is not exceeded by at least the share q of them; 0 for none.
func Quantile(q float64, sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return stat.Quantile(q, stat.Empirical, sorted, nil)
}

// Median returns the middle value, the mean of the two middle ones for an even number of values, or 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Zipf holds cumulative shares by popularity: Zipf[i] is the share of requests for the first i+1 of some keys.
type Zipf []float64

// NewZipf returns the shares of so many keys, the i-th of which, counted from 1, has a weight of 1/i^exponent. With
// exponent 0 all are equal.
func NewZipf(keys int, exponent float64) Zipf {
	z := Zipf(ZipfParts(keys, exponent))
	floats.CumSum(z, z)
	return z
}

// Draw returns the number of a key, counted from 0, for a uniform random number u in [0, 1).
func (z Zipf) Draw(u float64) int {
	i, _ := slices.BinarySearch(z, u)
	return min(i, len(z)-1)
}

// ZipfParts returns the share of each key, most popular first. They add up to 1.
func ZipfParts(keys int, exponent float64) []float64 {
	parts := make([]float64, keys)
	for i := range parts {
		parts[i] = math.Pow(float64(i+1), -exponent)
	}
	floats.Scale(1/floats.Sum(parts), parts)
	return parts
}
