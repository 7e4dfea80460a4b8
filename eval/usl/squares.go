package usl

import "gonum.org/v1/gonum/mat"

// leastSquares goes down from the law that is linear in its parameters, by the steps of Levenberg
// and Marquardt: those of Gauss and Newton, shortened until they help. Steps end at the bounds of
// the law; a parameter that wants to leave them stands still.
func leastSquares(points []Point) Law {
	scale := 0.0 // brings throughput near 1, so that tolerances mean the same for every system
	for _, p := range points {
		scale = max(scale, p.PerSecond)
	}
	scaled := make([]Point, len(points))
	for i, p := range points {
		scaled[i] = Point{p.Nodes, p.PerSecond / scale}
	}
	law, damping := linear(scaled), firstDamping
	sum := sumOfSquares(scaled, law)
	for range maxSteps {
		next := law.step(scaled, damping)
		less := sum - sumOfSquares(scaled, next)
		if less <= 0 {
			if damping *= 8; damping > lastDamping {
				break
			}
			continue
		}
		law, sum, damping = next, sum-less, damping/4
		if less <= tolerance*sum {
			break
		}
	}
	law.Lambda *= scale
	return law
}

const (
	firstDamping = 1e-3
	lastDamping  = 1e12 // steps are so short that they change nothing
	maxSteps     = 500
	tolerance    = 1e-14
)

func sumOfSquares(points []Point, l Law) (sum float64) {
	for _, p := range points {
		sum += square(p.PerSecond - l.At(p.Nodes))
	}
	return sum
}

// step is the law after one damped step towards less squares.
func (l Law) step(points []Point, damping float64) Law {
	var hessian [parameters][parameters]float64
	var downhill [parameters]float64
	for _, p := range points {
		slope := l.slope(p.Nodes)
		for i := range slope {
			downhill[i] += slope[i] * (p.PerSecond - l.At(p.Nodes))
			for k := range slope {
				hessian[i][k] += slope[i] * slope[k]
			}
		}
	}
	stuck := [parameters]bool{false,
		l.Sigma <= 0 && downhill[1] < 0 || l.Sigma >= 1 && downhill[1] > 0,
		l.Kappa <= 0 && downhill[2] < 0}
	a, b := mat.NewSymDense(parameters, nil), mat.NewVecDense(parameters, nil)
	for i := range parameters {
		if stuck[i] {
			a.SetSym(i, i, 1)
			continue
		}
		b.SetVec(i, downhill[i])
		for k := i; k < parameters; k++ {
			if !stuck[k] {
				a.SetSym(i, k, hessian[i][k])
			}
		}
		a.SetSym(i, i, hessian[i][i]*(1+damping)+tolerance)
	}
	var factors mat.Cholesky
	var by mat.VecDense
	if !factors.Factorize(a) || factors.SolveVecTo(&by, b) != nil {
		return l
	}
	return Law{
		Lambda: max(l.Lambda+by.AtVec(0), l.Lambda/2), // stays above 0
		Sigma:  min(max(l.Sigma+by.AtVec(1), 0), 1),
		Kappa:  max(l.Kappa+by.AtVec(2), 0),
	}
}

// slope is how throughput changes with each parameter.
func (l Law) slope(n float64) [parameters]float64 {
	c := l.At(n)
	by := -c * c / (l.Lambda * n)
	return [parameters]float64{c / l.Lambda, by * (n - 1), by * n * (n - 1)}
}

// linear solves n/C(n) = 1/lambda + sigma/lambda (n-1) + kappa/lambda n(n-1), brought into bounds.
// It weighs slow points too much for an answer, and is near enough for a start.
func linear(points []Point) Law {
	a, b := mat.NewDense(len(points), parameters, nil), mat.NewVecDense(len(points), nil)
	for i, p := range points {
		a.SetRow(i, []float64{1, p.Nodes - 1, p.Nodes * (p.Nodes - 1)})
		b.SetVec(i, p.Nodes/p.PerSecond)
	}
	var x mat.VecDense
	if err := x.SolveVec(a, b); err != nil || x.AtVec(0) <= 0 {
		return Law{Lambda: points[0].PerSecond / points[0].Nodes, Sigma: 0.1, Kappa: 0.01}
	}
	return Law{
		Lambda: 1 / x.AtVec(0),
		Sigma:  min(max(x.AtVec(1)/x.AtVec(0), 0), 1),
		Kappa:  max(x.AtVec(2)/x.AtVec(0), 0),
	}
}
