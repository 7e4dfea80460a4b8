package usl

import "math"

// Law is one instance of the law.
type Law struct {
	Lambda float64 `json:"lambda"` // throughput of one node, per second
	Sigma  float64 `json:"sigma"`  // 0 to 1
	Kappa  float64 `json:"kappa"`  // 0 or more
}

// At is the throughput of n nodes, per second.
func (l Law) At(n float64) float64 {
	return l.Lambda * n / (1 + l.Sigma*(n-1) + l.Kappa*n*(n-1))
}

// Peak is the number of nodes at which throughput is greatest, not rounded; false if more nodes
// always give more. Below 1, one node is best.
func (l Law) Peak() (nodes float64, ok bool) {
	if l.Kappa <= 0 {
		return 0, false
	}
	return math.Sqrt((1 - l.Sigma) / l.Kappa), true
}
