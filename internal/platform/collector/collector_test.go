package collector

import (
	"context"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, slack: 100, 2 * slack: 50, 4 * slack: 25, 8 << 30: 25} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}

// TestFreed: what is garbage goes back to the system, though nothing is allocated that would have it collected.
func TestFreed(t *testing.T) {
	t.Setenv("GOGC", "")
	const garbage = 64 << 20
	used := make([]byte, garbage)
	for i := range used {
		used[i] = 1
	}
	released := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(released)
	before := released[0].Value.Uint64()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go Follow(ctx)
	Freed()
	for ctx.Err() == nil {
		if metrics.Read(released); released[0].Value.Uint64() >= before+garbage/2 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery / 10):
		}
	}
	t.Errorf("%d bytes were given back, want %d", released[0].Value.Uint64()-before, garbage/2)
}
