package gatewaysim

import "container/heap"

// event is something that will happen. Events of one moment happen in the order in which they were planned.
type event struct {
	at, order uint64
	do        func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// after plans something.
func (w *world) after(d uint64, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + d, w.order, do})
}

// step makes the next thing happen.
func (w *world) step() {
	e := heap.Pop(&w.queue).(event)
	w.now = e.at
	w.result.Steps++
	e.do()
}
