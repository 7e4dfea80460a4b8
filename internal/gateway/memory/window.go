package memory

import "sync/atomic"

// underWay is how many batches may wait for the chain and the disks when the next one begins that is not whole.
const underWay = 1

// window counts the batches under way of a keyspace on disks.
type window struct {
	n     atomic.Int32
	freed chan struct{} // has an element if a batch may have ended
}

func (w *window) begin() { w.n.Add(1) }

// end is called after the answers to a batch.
func (w *window) end() {
	w.n.Add(-1)
	signal(w.freed)
}

// open reports whether the next batch may begin. One that is not whole waits, because more proposals join it meanwhile.
func (w *window) open(whole bool) bool { return whole || w.n.Load() < underWay }
