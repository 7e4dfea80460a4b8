package chaos

import (
	"testing"
	"time"
)

func TestLongestGap(t *testing.T) {
	seen := moments{1, 2, 10, 12, 30, 31}
	for _, c := range []struct{ from, until, end, want time.Duration }{
		{0, 40, 40, 18},
		{0, 10, 40, 8},   // the gap that begins at 10 is too late
		{11, 40, 40, 18}, // the gap that ends at 12 begins at 11
		{13, 40, 40, 17},
		{31, 40, 40, 9},
		{0, 40, 20, 8}, // the gap that began at 12 ends at 20
	} {
		if got := seen.longestGap(c.from, c.until, c.end); got != c.want {
			t.Errorf("from %d until %d, by %d: %d, want %d", c.from, c.until, c.end, got, c.want)
		}
	}
}
