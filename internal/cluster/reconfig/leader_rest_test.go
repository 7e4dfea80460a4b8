package reconfig

import (
	"testing"
	"time"
)

// TestIdleLeaderRests: the heartbeats of an idle cluster wake its leader, and the time alone hardly ever does.
func TestIdleLeaderRests(t *testing.T) {
	w := newWorld(t, 1, 3, 16, 3)
	w.settle()
	w.run(2 * time.Second)
	before := w.rests
	w.run(2 * time.Second)
	if rests := w.rests - before; rests > 4 {
		t.Errorf("the time woke the leader %d times in 2 s", rests)
	}
}
