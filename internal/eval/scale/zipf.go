package scale

import "math"

// Zipf gives the parts, which add up to 1, of so many keys in all requests, most popular first: that
// of rank i goes with 1/i^exponent. With exponent 0 all are equal.
func Zipf(keys int, exponent float64) []float64 {
	parts, sum := make([]float64, keys), 0.0
	for i := range parts {
		parts[i] = math.Pow(float64(i+1), -exponent)
		sum += parts[i]
	}
	for i := range parts {
		parts[i] /= sum
	}
	return parts
}
