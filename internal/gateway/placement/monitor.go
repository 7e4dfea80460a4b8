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
	// ReadRate and WriteRate are the events for each second, of the last few events if these come slowly.
	ReadRate, WriteRate float64
	Switch              Figures // of all these, those that the chain's nodes counted
	Unfit               bool    // it cannot be cached now: it has a lease, or does not fit
}

// Figures are the reads and writes that one source counted.
type Figures struct {
	Reads     float64 `json:"reads"` // decayed counts
	Writes    float64 `json:"writes"`
	ReadRate  float64 `json:"reads_per_s"`
	WriteRate float64 `json:"writes_per_s"`
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
	read, written pace
	others        struct { // those that the chain's nodes counted
		reads, writes float64
		read, written pace
	}
}

const (
	// paceEvents and paceSpan are the least events, and the least seconds, of a window of a pace.
	paceEvents = 3
	paceSpan   = 3
	// paceDamp is added to the seconds over which a rate is taken, so that a few events that come together make no high rate.
	paceDamp = 5
)

// pace tells the rate of events from the current window of time and the one before. A window has at least some events, so the rate of
// a key that is read once a minute is known as well as that of one that is read a thousand times a second, and a key of either kind
// that is not read any more is noticed in the time in which it used to be read a few times.
type pace struct{ before, now span }

// span is a part of time and its events.
type span struct{ start, events float64 }

// add takes an event.
func (p *pace) add(now float64) { p.addAll(1, now, now) }

// addAll takes events of some time.
func (p *pace) addAll(events, from, now float64) {
	switch {
	case events == 0:
		return
	case p.now.events == 0:
		p.now.start = from
	case p.now.events >= paceEvents && now-p.now.start >= paceSpan:
		p.before, p.now = p.now, span{start: from}
	}
	p.now.events += events
}

// rate returns the events for each second.
func (p *pace) rate(now float64) float64 {
	start := p.now.start
	if p.before.events > 0 {
		start = p.before.start
	}
	return (p.before.events + p.now.events) / (now - start + paceDamp)
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
		c.others.reads, c.others.writes = c.others.reads/w, c.others.writes/w
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
	c.read.add(now)
}

// Hit counts a read that a cached object answered.
func (m *Monitor) Hit(key string, bytes int, now float64) {
	w := m.weigh(now)
	c := m.touch(key, w)
	c.reads += w
	c.hits += w
	c.bytes = bytes
	c.read.add(now)
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
	c.written.add(now)
}

// Others counts what others than this gateway did with an object in the chain between two moments. The bytes are those
// of the object, for a key that is not known.
func (m *Monitor) Others(key string, u Use, bytes int, from, now float64) {
	reads, writes := float64(u.Reads), float64(u.Writes)
	if reads+writes == 0 || reads == 0 && m.counters[key] == nil { // as in Write
		return
	}
	w := m.weigh(now)
	c := m.touch(key, (reads+writes)*w)
	c.others.reads += reads * w
	c.others.writes += writes * w
	c.others.read.addAll(reads, from, now)
	c.others.written.addAll(writes, from, now)
	if c.bytes == 0 {
		c.bytes = bytes
	}
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
	w := m.weigh(now)
	list := make([]Usage, 0, len(m.counters))
	for _, c := range m.order {
		list = append(list, c.usage(w, now))
	}
	return list
}

// usage describes a counter at a moment when an event weighs w. The chain answered what its nodes counted.
func (c *counter) usage(w, now float64) Usage {
	o := &c.others
	others := Figures{
		Reads: o.reads / w, Writes: o.writes / w, ReadRate: o.read.rate(now), WriteRate: o.written.rate(now),
	}
	return Usage{
		Key: c.key, Reads: c.reads/w + others.Reads, Writes: c.writes/w + others.Writes, Hits: c.hits/w + others.Reads,
		Bytes: c.bytes, Unfit: c.unfit, ReadRate: c.read.rate(now) + others.ReadRate,
		WriteRate: c.written.rate(now) + others.WriteRate, Switch: others,
	}
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
