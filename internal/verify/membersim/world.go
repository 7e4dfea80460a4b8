package membersim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/seeded"
)

const (
	ms = uint64(1e6)
	// longestRun ends a run in which something waits for ever.
	longestRun = uint64(time.Minute)
	// recovery is how long everything may take to be whole once all faults have ended.
	recovery = 600 * ms
	// maxDelay is the longest delay of a message.
	maxDelay = 200 * ms
)

// world is everything that exists in a run.
type world struct {
	Config
	*seeded.Clock
	rng     *rand.Rand
	raft    *raft
	shards  []*shard
	members []*member // all that ever were, by ID from 1
	busy    int       // clients that are not done
	shown   core.Point
	ids     uint64
	calm    bool
	traced  bool
	result  *Result
}

// Result is the result of a run.
type Result struct {
	Ops, Fast, Unknown int
	Slow               [core.BelowJoined + 1]int // linearizable reads by ReadIndex, by reason
	Steps              int
	Views              int // that were on at some member
	Reconfigurations   int // losses of a shard's state
	Simulated          time.Duration
	Faults             [faults]int
	Broken             string // the first check that failed
	At                 time.Duration
	Trace              []string
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
	w.raft = &raft{w: w, revisions: []int64{1}}
	for i := range c.Shards {
		w.shards = append(w.shards, w.newShard(i, 1))
	}
	for range c.Members {
		id := w.newMember().id
		w.raft.append(entry{kind: add, member: id})
		w.raft.append(entry{kind: promote, member: id})
	}
	for _, m := range w.members {
		m.start()
	}
	w.busy = c.Clients
	for range c.Clients {
		(&client{w: w, left: c.Ops}).think()
	}
	w.nextFault()
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

// finish ends all faults and checks that every member reads through the chain.
func (w *world) finish() {
	w.calm = true
	w.note("all faults end")
	w.raft.away = 0
	for _, s := range w.shards {
		s.away = 0
	}
	for _, m := range w.members {
		m.paused, m.cutRaft, m.cutChain, m.slow = 0, 0, 0, 0
		if m.life != nil && m.life.plain {
			m.crash()
		}
		if m.plain, m.off = false, false; m.life == nil && w.raft.has(m.id) {
			m.start()
		}
		if l := m.life; l != nil && l.core != nil {
			l.event(func() { l.core.Want(l.now(), true) })
		}
	}
	w.Until(w.Now+recovery, func() bool { return w.result.Broken == "" })
	for _, m := range w.members {
		l := m.life
		switch {
		case w.result.Broken != "" || !w.raft.has(m.id):
		case l == nil || !l.ready:
			w.broken("stuck: member %d does not serve after all faults", m.id)
		case !l.calm:
			w.broken("stuck: %v does not read through the chain after all faults: %+v", l, l.core.Status(l.now()))
		case len(l.reveals) > 0:
			w.broken("stuck: %v shows nothing after all faults", l)
		}
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

func (w *world) delay() uint64 {
	d := uint64(w.Latency) + uint64(w.rng.ExpFloat64()*float64(w.Jitter))
	if w.happens(LateMessage, w.Late) {
		d += w.rng.Uint64N(maxDelay) >> (4 * w.rng.IntN(2))
	}
	return d
}

// carry delivers a message of the chain once, more often or never.
func (w *world) carry(deliver func()) {
	if w.happens(Lost, w.Loss) {
		return
	}
	w.After(w.delay(), deliver)
	if w.happens(Repeated, w.Duplicate) {
		w.After(w.delay()+w.rng.Uint64N(maxDelay)>>(4*w.rng.IntN(2)), deliver)
	}
}

// send delivers a message between members once, late, or never: such streams repeat nothing.
func (w *world) send(deliver func()) {
	if !w.happens(Lost, w.Loss) {
		w.After(w.delay(), deliver)
	}
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
