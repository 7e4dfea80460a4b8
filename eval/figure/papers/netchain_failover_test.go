package papers

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/figure"
)

// No cell of the table depends on the assumed repair of the published protocols; the measured
// values of all systems are there.
func TestFailoverComparesWhatWasMeasured(t *testing.T) {
	s, dir := netchainFailover(Tools{}), t.TempDir()
	invent(t, dir, s, func(figure.Cell) bool { return true })
	o, err := figure.Load(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	assumed, measured := 0, 0
	for _, r := range o.Made(dir).Results {
		switch {
		case strings.Contains(r.Metric, "assumed"):
			assumed++
			if r.Values[figure.NetChain] != nil || r.Values[figure.NetCRAQPaper] != nil || r.Values[figure.Ours] == nil {
				t.Errorf("%+v", r)
			}
		default:
			measured++
			if r.Values[figure.NetChain] == nil || r.Values[figure.Ours] == nil {
				t.Errorf("%+v", r)
			}
		}
	}
	if assumed != 4 || measured != 6 {
		t.Errorf("%d lines of what is assumed, %d of what was measured", assumed, measured)
	}
}

// In a copy that is hardly longer than a client's pause no writes can be counted: none are no
// evidence that they were stopped.
func TestAShortCopyCountsNothing(t *testing.T) {
	for copyS, counted := range map[float64]bool{0: false, 0.049: false, 0.05: true, 2: true} {
		v := make(map[string]float64)
		countKept(v, copyS, 0, 2000)
		if _, has := v[writesKept]; has != counted || v[copyTime] != copyS {
			t.Errorf("a copy of %g s: %v", copyS, v)
		}
	}
}
