package reconfig

import (
	"testing"
	"time"
)

// TestNodeIsBarredOnce: also if it is still silent while the change that bars it is under way.
func TestNodeIsBarredOnce(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 4, 4, 2)
		n := w.nodes[0]
		w.operate(Drain{n.reg.Name})
		w.settle()
		n.cut = true
		w.run(time.Second)
		if r := w.state.Nodes[n.id()]; r.Standing != BarredDraining || w.leader.nodes[r.ID].bars != 1 {
			w.fatalf("standing %v, barred %d times", r.Standing, w.leader.nodes[r.ID].bars)
		}
	})
}
