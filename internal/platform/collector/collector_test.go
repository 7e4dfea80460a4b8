package collector

import "testing"

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, slack: 100, 2 * slack: 50, 4 * slack: 25, 8 << 30: 25} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}
