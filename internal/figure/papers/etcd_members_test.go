package papers

import (
	"testing"

	"github.com/netcraq/netcraq/internal/figure"
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
		if r.Low == nil {
			continue
		}
		bounded++
		if r.High != nil && *r.High < *r.Low {
			t.Errorf("%s: %s", r.Metric, r.Interval())
		}
	}
	if bounded != 2*4 {
		t.Errorf("%d results have bounds", bounded)
	}
}
