package usl

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
)

// Point is one measurement. Several may be of the same number of nodes.
type Point struct {
	Nodes     float64 `json:"nodes"`
	PerSecond float64 `json:"per_second"`
}

// Fitted is the law that measurements follow best.
type Fitted struct {
	Law
	Points int `json:"points"`
	// part of the variance that the law explains; below 0 it is worse than their mean
	RSquared  float64    `json:"r_squared"`
	Error     float64    `json:"error"`     // root of the mean square of the residuals, relative to the mean throughput
	Intervals *Intervals `json:"intervals"` // nil where there are no more points than parameters
}

// parameters of the law.
const parameters = 3

// Fit finds the law with the least squares of the residuals, and how certain its parameters are.
func Fit(points []Point, o Options) (*Fitted, error) {
	if err := check(points); err != nil {
		return nil, err
	}
	law := leastSquares(points)
	f := &Fitted{Law: law, Points: len(points)}
	measured, squares := make([]float64, len(points)), 0.0
	for i, p := range points {
		measured[i] = p.PerSecond
		squares += square(p.PerSecond - law.At(p.Nodes))
	}
	mean, deviation := stat.PopMeanStdDev(measured, nil)
	f.Error = math.Sqrt(squares/float64(len(points))) / mean
	f.RSquared = 1
	if deviation > 0 {
		f.RSquared = 1 - squares/(square(deviation)*float64(len(points)))
	}
	if len(points) > parameters {
		f.Intervals = o.bootstrap(points, law)
	}
	return f, nil
}

func square(x float64) float64 { return x * x }

// check returns an error for points that no law can be fitted to.
func check(points []Point) error {
	distinct := make(map[float64]bool)
	for _, p := range points {
		if !(p.Nodes >= 1) || !(p.PerSecond > 0) || math.IsInf(p.Nodes+p.PerSecond, 0) {
			return fmt.Errorf("%g nodes with %g operations/s: want at least one node, and throughput above 0",
				p.Nodes, p.PerSecond)
		}
		distinct[p.Nodes] = true
	}
	if len(distinct) < parameters {
		return fmt.Errorf("%d different numbers of nodes: the law has %d parameters and needs as many",
			len(distinct), parameters)
	}
	return nil
}
