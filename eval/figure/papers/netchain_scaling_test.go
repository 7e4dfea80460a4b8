package papers

import (
	"testing"

	"github.com/netcraq/netcraq/eval/scale"
)

// No protocol is compared by clients that know the load of all switches: that is the bound, a
// series of its own.
func TestScalingSharesReadsAsClientsDo(t *testing.T) {
	for _, s := range netchainScaling().Series {
		if want := s.Name == zipfBound; (scaled[s.Name].spread == scale.Level) != want {
			t.Errorf("%s: reads are shared %s", s.Name, scaled[s.Name].spread)
		}
	}
}
