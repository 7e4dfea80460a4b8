package reconfig

import (
	"testing"
	"time"
)

// TestNodeIsFencedOnce: also if it is still silent while the change that fences it is under way.
func TestNodeIsFencedOnce(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 4, 2)
		n := w.nodes[0]
		w.operate(Drain{n.reg.Name})
		w.settle()
		n.cut = true
		w.run(time.Second)
		if r := w.state.Nodes[n.id()]; r.Standing != FencedDraining || w.leader.nodes[r.ID].fences != 1 {
			w.fatalf("standing %v, fenced %d times", r.Standing, w.leader.nodes[r.ID].fences)
		}
	})
}
