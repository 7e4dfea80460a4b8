package keyspacesim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

const (
	ms = uint64(1e6)
	// longestRun ends a run in which something waits for ever.
	longestRun = uint64(time.Minute)
	// recovery is how long everything may take to be whole once all faults have ended.
	recovery = 3000 * ms
	// maxDelay is the longest delay of a message.
	maxDelay = 100 * ms
)

// item is an entry of the log in a state. A state is a list of items; entry n is item n-1.
type item struct {
	era, term, id uint64
	sum           uint64 // of this item and all before it
}

// then returns the item behind a state.
func then(state []item, era, term, id uint64) item {
	before := uint64(14695981039346656037)
	if len(state) > 0 {
		before = state[len(state)-1].sum
	}
	return item{era, term, id, (before ^ id) * 1099511628211}
}

// world is everything that exists in a run.
type world struct {
	Config
	*seeded.Clock
	rng      *rand.Rand
	chain    chain
	record   core.Record // in the controllers' etcd
	version  uint64      // of the record
	gateways []*gateway
	busy     int    // clients that are not done
	shown    []item // the longest state that anybody has shown
	terms    uint64 // that the lock has given
	forced   uint64 // the last era that began after disks were given up
	cut      int    // how much of what was shown before it began with
	ids      uint64
	calm     bool
	traced   bool
	result   *Result
}

// Result is the result of a run.
type Result struct {
	Ops, Reads, Writes, Unknown int
	Steps                       int
	Recoveries                  int // that began
	Eras                        int // that became active
	Losses                      int // of a shard's state
	GivenUp                     int // times that a majority of the disks was
	Dropped                     int // entries that had been shown, and only lost disks had
	Simulated                   time.Duration
	Faults                      [faults]int
	Broken                      string // the first check that failed
	At                          time.Duration
	Trace                       []string
}

// Run simulates one world.
func Run(c Config) *Result { return run(c, false) }

// Trace is [Run] with remarks on everything that happens.
func Trace(c Config) *Result { return run(c, true) }

func run(c Config, traced bool) *Result {
	w := &world{
		Config: c, Clock: &seeded.Clock{Now: uint64(time.Second)}, rng: rand.New(rand.NewPCG(c.Seed, 2)), traced: traced,
		result: new(Result),
	}
	w.chain = chain{w: w, away: make([]uint64, c.Shards), lost: make([]int, c.Shards), logs: make(map[uint64][]stored)}
	for i := range c.Gateways {
		g := &gateway{w: w, name: uint64(i + 1)}
		g.disk = w.newDisk(g.name)
		w.gateways = append(w.gateways, g)
		g.start()
	}
	w.busy = c.Clients
	for range c.Clients {
		(&client{w: w, left: c.Ops}).think()
	}
	w.elections()
	w.nextFault()
	w.nextLoss()
	began := w.Now
	w.Until(w.Now+longestRun, func() bool { return w.busy > 0 && w.result.Broken == "" })
	if w.busy > 0 {
		w.broken("stuck: clients are not done")
	}
	w.finish()
	w.result.Steps = w.Steps
	w.result.Simulated = time.Duration(w.Now - began)
	return w.result
}

// finish ends all faults and checks that a write is acknowledged and that every gateway answers a read.
func (w *world) finish() {
	w.calm = true
	w.note("all faults end")
	clear(w.chain.away)
	for _, g := range w.gateways {
		g.paused, g.cut, g.cutRecord, g.slow = 0, 0, 0, 0
		if g.life == nil {
			g.start()
		}
	}
	wrote, reads := false, make([]bool, len(w.gateways))
	var probe func()
	probe = func() {
		for i, g := range w.gateways {
			x := &request{w: w, l: g.life, floor: len(w.shown), write: i == 0, ended: func(ok bool) { reads[i] = reads[i] || ok }}
			if x.write {
				x.ended = func(ok bool) { wrote = wrote || ok }
				x.begin()
				x = &request{w: w, l: g.life, floor: len(w.shown), ended: func(ok bool) { reads[i] = reads[i] || ok }}
			}
			x.begin()
		}
		w.After(20*ms, probe)
	}
	probe()
	whole := func() bool {
		for _, ok := range reads {
			if !ok {
				return false
			}
		}
		return wrote
	}
	w.Until(w.Now+recovery, func() bool { return w.result.Broken == "" && !whole() })
	if w.result.Broken == "" && !whole() {
		w.broken("stuck: after all faults: wrote %v, read %v, record %+v", wrote, reads, w.record)
	}
}

// show checks a state that is shown to somebody: it continues all that was shown before, or is an earlier part of it.
func (w *world) show(l *life, what string, state []item) {
	if l.era() < w.forced { // what lost disks had may still be seen there
		state = state[:min(len(state), w.cut)]
	}
	n := min(len(state), len(w.shown))
	if n > 0 && state[n-1].sum != w.shown[n-1].sum {
		w.broken("lost: %v shows (%s) another entry %d or before than was shown, in era %d", l, what, n, l.era())
		return
	}
	if len(state) > len(w.shown) {
		w.shown = append(w.shown, state[n:]...)
	}
}

// happens draws a fault of the network.
func (w *world) happens(f Fault, p float64) bool {
	if w.calm || w.Quiet&(1<<f) != 0 || p == 0 || w.rng.Float64() >= p {
		return false
	}
	w.result.Faults[f]++
	return true
}

func (w *world) exp(mean time.Duration) uint64 { return uint64(w.rng.ExpFloat64() * float64(mean)) }

func (w *world) delay() uint64 {
	d := uint64(w.Latency) + w.exp(w.Jitter)
	if w.happens(LateMessage, w.Late) {
		d += w.rng.Uint64N(maxDelay) >> (3 * w.rng.IntN(3))
	}
	return d
}

// send delivers a message from one gateway to another once, late, or never.
func (w *world) send(from *gateway, to *gateway, deliver func(*life)) {
	if from != to && (w.Now < from.cut || w.Now < to.cut || w.happens(LostMessage, w.Loss)) {
		return
	}
	w.After(w.delay(), func() {
		if to.life != nil && (from == to || w.Now >= to.cut) {
			to.life.enter(func() { deliver(to.life) })
		}
	})
}

// changeRecord replaces the record if it still has a version, or not, and tells the caller which.
func (w *world) changeRecord(l *life, version uint64, r core.Record, answer func(ok bool)) {
	answered := false
	reply := func(ok bool) {
		l.enter(func() {
			if !answered {
				answered = true
				answer(ok)
			}
		})
	}
	w.After(uint64(w.Patience), func() { reply(false) })
	if w.Now < l.g.cutRecord {
		return
	}
	w.After(w.delay(), func() {
		ok := w.version == version
		if err := w.record.CheckChange(&r); ok && err != nil && w.Without == 0 {
			w.broken("a controller refuses the record of %v: %v", l, err)
		}
		if ok {
			w.begins(&r)
			w.version, w.record = w.version+1, r
			w.note("record: %+v", r)
			if r.Recovering == 0 {
				w.result.Eras++
			}
			for _, g := range w.gateways {
				w.readRecord(g)
			}
		}
		w.After(w.delay(), func() { reply(ok) })
	})
}

// readRecord hands the record to a gateway.
func (w *world) readRecord(g *gateway) {
	if w.Now < g.cutRecord {
		return
	}
	w.After(w.delay(), func() {
		if l, r, version := g.life, w.record, w.version; l != nil && w.Now >= g.cutRecord {
			l.enter(func() { l.recorded(r, version) })
		}
	})
}

func (w *world) id() uint64 {
	w.ids++
	return w.ids
}

func (w *world) note(format string, args ...any) {
	if w.traced {
		w.result.Trace = append(w.result.Trace, w.Note(format, args...))
	}
}

func (w *world) broken(format string, args ...any) {
	if w.result.Broken == "" {
		w.result.Broken, w.result.At = fmt.Sprintf(format, args...), time.Duration(w.Now)
		w.note("BROKEN: %s", w.result.Broken)
	}
}
