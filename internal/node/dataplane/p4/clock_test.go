package p4

import (
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// TestOtherClock: a lease ends on a switch's own clock no later than on this machine's.
func TestOtherClock(t *testing.T) {
	const hour = uint64(3600e9)
	for name, c := range map[string]struct{ before, now, after, end, want uint64 }{
		"the same clock":               {5 * hour, 5*hour + 3, 5*hour + 9, 6 * hour, 6 * hour},
		"it began later":               {5 * hour, hour, 5*hour + 9, 6 * hour, 2*hour - 9 - tick},
		"it began earlier":             {hour, 5 * hour, hour + 9, 2 * hour, 6*hour - 9 - tick},
		"the lease ended before":       {5 * hour, hour, 5*hour + 9, 3 * hour, 0},
		"the lease ends with its zero": {5 * hour, hour, 5*hour + 9, 4*hour + 10 + tick, 0},
		"no end":                       {5 * hour, hour, 5*hour + 9, chain.Forever, chain.Forever},
		"none":                         {5 * hour, hour, 5*hour + 9, 0, 0},
		"that of the node":             {5 * hour, hour, 5*hour + 9, leaseOfNode, leaseOfNode},
	} {
		var n Node
		n.compareClocks(c.before, c.now, c.after)
		if got := n.onSwitch(c.end); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestClockThatDrifts: a node keeps its offset to a switch's clock as long as the readings allow it.
func TestClockThatDrifts(t *testing.T) {
	var n Node
	n.compareClocks(1000, 500_000, 2000)
	first := n.ahead.Load()
	if n.compareClocks(1_000_000, 1_498_500, 1_001_000); n.ahead.Load() != first {
		t.Errorf("it is %d ahead, then %d", first, n.ahead.Load())
	}
	if n.compareClocks(2_000_000, 2_400_000, 2_001_000); n.ahead.Load() != 400_000-1000-int64(tick) {
		t.Errorf("it was set back, and is %d ahead", n.ahead.Load())
	}
}
