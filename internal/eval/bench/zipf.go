package bench

import (
	"math"
	"slices"
)

// zipf is a Zipf distribution over the ranks 0 to n-1, of any exponent.
type zipf struct {
	sums []float64 // of the weights up to each rank, of all of them 1
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

// draw returns the rank that a uniform random number of [0, 1) stands for.
func (z zipf) draw(u float64) int {
	rank, _ := slices.BinarySearch(z.sums, u)
	return min(rank, len(z.sums)-1)
}
