// Package placement decides which of etcd's keys the chain holds. It is pure: time is an argument, in seconds.
//
// A [Monitor] counts reads and writes of the keys that are used most, in bounded memory. [Choose] picks the keys that bring the most
// reads for each byte, within the nodes' memory.
package placement

import (
	"container/heap"
	"math"
)

// Usage has the counts of a key. Counts decay: a read counts half after each half-life.
type Usage struct {
	Key           string
	Reads, Writes float64
	Hits          float64 // of the reads, those that the chain answered
	Bytes         int     // of the value
	// ReadRate and WriteRate are the counts as events for each second: what a steady load has after several half-lives.
	ReadRate, WriteRate float64
	Unfit               bool // it cannot be cached now: it has a lease, or does not fit
}

// Monitor counts with the Space-Saving algorithm. When its table is full, a new key replaces the least used one and starts
// from its counts. These are subtracted from the reported counts.
type Monitor struct {
	most     int
	halfLife float64
	start    float64 // the moment at which an event weighs 1
	counters map[string]*counter
	order    byWeight
}

type counter struct {
	key           string
	weight        float64 // of all events, and of those of the keys whose place it took
	reads, writes float64
	hits          float64
	bytes         int
	unfit         bool
	at            int // index in the heap
}

// NewMonitor makes a monitor of at most so many keys.
func NewMonitor(most int, halfLife float64) *Monitor {
	return &Monitor{most: most, halfLife: halfLife, counters: make(map[string]*counter)}
}

// heaviest is the weight of an event at which all weights are scaled down.
const heaviest = 1 << 40

// weigh returns the weight of an event at this time. Later events weigh more, so that old counts need no update.
func (m *Monitor) weigh(now float64) float64 {
	w := math.Exp2((now - m.start) / m.halfLife)
	if w < heaviest {
		return w
	}
	for _, c := range m.counters {
		c.weight, c.reads, c.writes, c.hits = c.weight/w, c.reads/w, c.writes/w, c.hits/w
	}
	m.start = now
	return 1
}

// Read counts a read that a cached object could answer.
func (m *Monitor) Read(key string, bytes int, now float64) {
	w := m.weigh(now)
	c := m.touch(key, w)
	c.reads += w
	c.bytes = bytes
}

// Hit counts a read that a cached object answered.
func (m *Monitor) Hit(key string, bytes int, now float64) {
	w := m.weigh(now)
	c := m.touch(key, w)
	c.reads += w
	c.hits += w
	c.bytes = bytes
}

// Fits notes that a key can be cached after all.
func (m *Monitor) Fits(key string) {
	if c := m.counters[key]; c != nil {
		c.unfit = false
	}
}

// Write counts a write of a key that is known. Others bring nothing yet, and would take the counters of keys that are
// read.
func (m *Monitor) Write(key string, bytes int, unfit bool, now float64) {
	if m.counters[key] == nil {
		return
	}
	w := m.weigh(now)
	c := m.touch(key, w)
	c.writes += w
	c.bytes, c.unfit = bytes, unfit
}

func (m *Monitor) touch(key string, w float64) *counter {
	c := m.counters[key]
	switch {
	case c != nil:
		c.weight += w
		heap.Fix(&m.order, c.at)
		return c
	case len(m.counters) < m.most:
		c = &counter{key: key, weight: w}
		heap.Push(&m.order, c)
	default:
		c = m.order[0]
		delete(m.counters, c.key)
		*c = counter{key: key, weight: c.weight + w}
		heap.Fix(&m.order, 0)
	}
	m.counters[key] = c
	return c
}

// Usages lists all keys that are known, in no order.
func (m *Monitor) Usages(now float64) []Usage {
	w, rate := m.weigh(now), math.Ln2/m.halfLife
	list := make([]Usage, 0, len(m.counters))
	for _, c := range m.order {
		u := Usage{Key: c.key, Reads: c.reads / w, Writes: c.writes / w, Hits: c.hits / w, Bytes: c.bytes, Unfit: c.unfit}
		u.ReadRate, u.WriteRate = u.Reads*rate, u.Writes*rate
		list = append(list, u)
	}
	return list
}

// byWeight is a heap, the lightest first.
type byWeight []*counter

func (h byWeight) Len() int           { return len(h) }
func (h byWeight) Less(i, j int) bool { return h[i].weight < h[j].weight }
func (h byWeight) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *byWeight) Push(x any) {
	c := x.(*counter)
	c.at = len(*h)
	*h = append(*h, c)
}
func (h *byWeight) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
