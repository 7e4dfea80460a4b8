package bench

import (
	"math"
	"testing"
)

// TestFastestPaceIsTaken expects the fastest pace with tolerable loss: not the first such pace, and
// none with more loss if there is one with less.
func TestFastestPaceIsTaken(t *testing.T) {
	tried := []probed{
		{pace: pace{batch: 64}, lost: true, perSecond: 9},
		{pace: pace{batch: 32}, perSecond: 5},
		{pace: pace{batch: 16}, perSecond: 7},
		{pace: pace{batch: 8}, lost: true, perSecond: 8},
	}
	if p := fastest(tried); p.batch != 16 {
		t.Errorf("batches of %d", p.batch)
	}
	for i := range tried {
		tried[i].lost = true
	}
	if p := fastest(tried); p.batch != 64 {
		t.Errorf("where all lose: batches of %d", p.batch)
	}
}

// TestCongestionIsFoundFinely expects the sustained load within 5 %, in few trials.
func TestCongestionIsFoundFinely(t *testing.T) {
	for _, most := range []float64{5000, 4999, 3600, 2500, 1234, 777, 416, 120} {
		trials := 0
		found, err := highestSustained(5000, func(offered float64) (bool, error) {
			trials++
			return offered <= most, nil
		})
		if err != nil || found > most || found < 0.95*most || trials > congestionTries+congestionHalving {
			t.Errorf("%v: %v after %d trials, %v", most, found, trials, err)
		}
	}
	found, err := highestSustained(5000, func(float64) (bool, error) { return false, nil })
	if err != nil || math.Abs(found-5000*math.Pow(coarseStep, congestionTries-1)) > 1 {
		t.Errorf("if nothing is sustained: %v, %v", found, err)
	}
}
