package reconfig

import (
	"testing"
	"time"
)

// TestResizeWhileACopyCompletes: the change that has a shard's new size leaves the end of its copy for the next one.
func TestResizeWhileACopyCompletes(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		w := formed(t, seed, 3, 1, 2)
		w.operate(Replicas{3})
		met, extra := false, uint8(0)
		w.hook = func() {
			l := w.leader
			if met || !l.copying[0] || l.storing && !l.completed[0] {
				return
			}
			met = l.storing // so that the next change has both, the end of the copy and the size
			extra = 1 - extra
			_ = w.try(Resize{Shard: 0, Extra: extra})
		}
		w.run(time.Second)
		if w.hook = nil; !met {
			w.fatalf("no resize met the end of a copy")
		}
		w.operate(Resize{Shard: 0})
		w.settle()
		if got := len(w.chain(0)); got != 3 {
			w.fatalf("%d members", got)
		}
	})
}
