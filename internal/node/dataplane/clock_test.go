package dataplane

import (
	"math"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// A lease that is over ended before now, also on a machine that booted after its end.
func TestLeaseUntil(t *testing.T) {
	for _, now := range []uint64{0, 1, uint64(time.Minute), uint64(time.Hour), uint64(24 * 365 * time.Hour)} {
		for _, d := range []time.Duration{-1, -time.Second, -time.Hour, math.MinInt64} {
			if until := LeaseUntil(now, d); until > now || until == now && now > 0 {
				t.Errorf("at %d a lease that ended %v ago lasts until %d", now, -d, until)
			}
		}
		if until := LeaseUntil(now, time.Hour); until != now+uint64(time.Hour) {
			t.Errorf("at %d a lease of an hour lasts until %d", now, until)
		}
		if LeaseUntil(now, 0) != 0 || LeaseUntil(now, Forever) != chain.Forever {
			t.Errorf("at %d: none %d, forever %d", now, LeaseUntil(now, 0), LeaseUntil(now, Forever))
		}
	}
}
