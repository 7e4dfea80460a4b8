package reconfig

import (
	"slices"
	"testing"
)

// TestBeatsAreSpared: a controller whose heartbeats the data plane takes gets one heartbeat of the agent in three, and
// news at once. When the data plane has taken none for two intervals, the agent sends all.
func TestBeatsAreSpared(t *testing.T) {
	const start = 1_000_000_000
	var b Beats
	end := uint64(0)
	var sent []int
	for i := range 24 {
		now := uint64(start + i*int(10*ms))
		if i >= 3 && i < 17 { // the plane takes grants
			end = now + 1
		}
		if b.Due(now, 10*ms, end, i == 8) {
			sent = append(sent, i)
		}
	}
	want := []int{0, 1, 2, 5, 8, 11, 14, 17, 18, 19, 20, 21, 22, 23}
	if !slices.Equal(sent, want) {
		t.Errorf("heartbeats were sent at %v, want %v", sent, want)
	}
}
