package peer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
)

// keyName returns the i-th key of a workload, 16 bytes long.
func keyName(i int) string { return fmt.Sprintf("key-%012d", i) }

// valueOf returns the value that a workload stores.
func valueOf(bytes int) []byte {
	value := make([]byte, bytes)
	for i := range value {
		value[i] = 'a' + byte(i%26)
	}
	return value
}

// ranks holds cumulative shares: ranks[i] is the share of requests for the first i+1 keys. nil
// means uniform.
type ranks []float64

// zipf returns ranks in which the i-th key, counted from 1, has a weight of 1/i^exponent.
func zipf(keys int, exponent float64) ranks {
	if exponent == 0 {
		return nil
	}
	r := make(ranks, keys)
	sum := 0.0
	for i := range r {
		sum += math.Pow(float64(i+1), -exponent)
		r[i] = sum
	}
	for i := range r {
		r[i] /= sum
	}
	return r
}

// drawer chooses keys for one client. It is not safe for concurrent use.
type drawer struct {
	rng   *rand.Rand
	names []string
	ranks ranks
	from  int // draws only every step-th name from this one on
	step  int
}

// draw returns the number of a key.
func (d *drawer) draw() int {
	if d.ranks != nil {
		return min(sort.SearchFloat64s(d.ranks, d.rng.Float64()), len(d.ranks)-1)
	}
	return d.from + d.step*d.rng.IntN((len(d.names)-d.from+d.step-1)/d.step)
}
