package papers

import (
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
)

// Parameters of the law and its peak stand with the bounds of their intervals.
func TestLawHasBounds(t *testing.T) {
	dir, spec := t.TempDir(), etcdMembers()
	invent(t, dir, spec, func(figure.Cell) bool { return true })
	o, err := figure.Load(dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	bounded := 0
	for _, r := range o.Made(dir).Results {
		bounds, there := r.Intervals[figure.Peer]
		if !there {
			continue
		}
		bounded++
		if bounds.High != nil && *bounds.High < bounds.Low {
			t.Errorf("%s: %+v", r.Metric, bounds)
		}
	}
	if bounded != 2*4 {
		t.Errorf("%d results have bounds", bounded)
	}
}

// TestEveryClusterOfTheStudy: the study had 1 to 11 members. All rounds have to fit, though each
// starts all clusters anew and every cell waits for the first answers: that takes 60 s on a quiet
// machine of two cores, and a third of the budget is kept for it.
func TestEveryClusterOfTheStudy(t *testing.T) {
	spec := etcdMembers()
	if want := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(spec.Full.Xs, want) {
		t.Errorf("sizes %v, want %v", spec.Full.Xs, want)
	}
	for _, plan := range []figure.Plan{spec.Quick, spec.Full} {
		windows := time.Duration(plan.Rounds*len(plan.Xs)*len(spec.Series)) * plan.Window
		if windows > plan.Budget*2/3 {
			t.Errorf("windows of %v in a budget of %v", windows, plan.Budget)
		}
	}
}
