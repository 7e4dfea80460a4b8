package bench

import (
	"math"
	"slices"
)

// zipf is a Zipf distribution over the ranks 0 to n-1 with any exponent.
type zipf struct {
	sums []float64 // cumulative weights by rank; the last is 1
}

func newZipf(n int, exponent float64) zipf {
	z := zipf{make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -exponent)
		z.sums[i] = sum
	}
	for i := range z.sums {
		z.sums[i] /= sum
	}
	return z
}

// draw returns the rank for a uniform random number u in [0, 1).
func (z zipf) draw(u float64) int {
	rank, _ := slices.BinarySearch(z.sums, u)
	return min(rank, len(z.sums)-1)
}
