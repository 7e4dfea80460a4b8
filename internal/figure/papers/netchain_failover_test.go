package papers

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/figure"
)

// What was assumed of the published protocols' repair is in no cell of the table; what was measured of it is, for all alike.
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
			if r.NetChain != nil || r.Published != nil || r.Ours == nil {
				t.Errorf("%+v", r)
			}
		default:
			measured++
			if r.NetChain == nil || r.Ours == nil {
				t.Errorf("%+v", r)
			}
		}
	}
	if assumed != 4 || measured != 6 {
		t.Errorf("%d lines of what is assumed, %d of what was measured", assumed, measured)
	}
}
