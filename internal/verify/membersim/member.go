package membersim

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/member/core"
)

// member is a machine on which a member's process runs, or not.
type member struct {
	w                               *world
	id                              uint64
	lives                           int
	life                            *life // nil: it is down
	durable                         int   // the index with which a life begins
	plain                           bool  // the next life is plain etcd
	off                             bool  // chain reads are switched off
	stopping                        bool
	rate                            float64 // of its clock
	paused, cutRaft, cutChain, slow uint64
}

func (w *world) newMember() *member {
	m := &member{w: w, id: uint64(len(w.members) + 1), rate: 1 + w.Drift*(2*w.rng.Float64()-1)}
	w.members = append(w.members, m)
	return m
}

// waiting is something that waits for an index.
type waiting struct {
	index int
	then  func()
}

// life is one life of a member's process.
type life struct {
	m         *member
	number    int
	plain     bool
	core      *core.Machine // nil: of plain etcd, or not serving yet
	ready     bool
	dead      bool
	applied   int
	following bool
	list      []listed
	inbox     []func()
	requests  map[uint64]func(core.Point) // that wait until their entry is applied
	waits     []waiting
	reads     map[uint64]*request
	reveals   map[uint64]func()
	leaves    map[uint64]func()
	chain     chainClient
	on        uint64 // the last view that was on
	calm      bool   // it has read through the chain after all faults
}

func (l *life) String() string { return fmt.Sprintf("m%d.%d", l.m.id, l.number) }

// now is the member's clock.
func (l *life) now() int64 { return int64(float64(l.m.w.Now) * l.m.rate) }

// start begins a life: it applies its log, and serves when the log has its plain attributes.
func (m *member) start() {
	m.lives++
	l := &life{
		m: m, number: m.lives, plain: m.plain, applied: m.durable, requests: make(map[uint64]func(core.Point)),
		reads: make(map[uint64]*request), reveals: make(map[uint64]func()), leaves: make(map[uint64]func()),
	}
	l.chain = newChainClient(l)
	l.list = m.w.list(l.applied)
	m.life = l
	m.w.note("%v starts at %d; plain: %v", l, l.applied, l.plain)
	l.follow()
	l.publish()
}

func (l *life) publish() {
	if l.ready || l.dead {
		return
	}
	l.propose(entry{kind: attributes, member: l.m.id, life: l.number})
	l.m.w.After(15*ms, func() { l.m.w.enter(l, l.publish) })
}

// serve begins when the plain attributes of this life are applied.
func (l *life) serve() {
	w := l.m.w
	l.ready = true
	w.note("%v serves", l)
	if l.plain {
		return
	}
	l.core = core.New(core.Options{
		Member: l.m.id, Life: w.rng.Uint64(), TTL: int64(w.TTL), Every: int64(w.Tick), Patience: int64(w.TTL) / 3,
		Rest: 2 * int64(w.Tick), Without: w.Without,
	})
	l.core.Want(l.now(), !l.m.off)
	l.tick()
}

// tick samples the applied state. Timers of a paused process are late, and have no order.
func (l *life) tick() {
	w := l.m.w
	switch {
	case l.dead:
		return
	case w.Now < l.m.paused:
		w.After(l.m.paused-w.Now+w.rng.Uint64N(uint64(w.Tick)), l.tick)
		return
	}
	l.event(func() {
		l.core.Applied(l.now(), l.sample())
		l.core.Tick(l.now())
	})
	w.After(uint64(w.Tick), l.tick)
}

func (l *life) sample() core.Sample {
	s := core.Sample{Asked: l.now(), Applied: l.point()}
	for _, x := range l.list {
		s.Members = append(s.Members, x.Member)
	}
	return s
}

// crash ends a life.
func (m *member) crash() {
	l := m.life
	if l == nil {
		return
	}
	m.w.note("%v ends", l)
	l.dead, m.life, m.stopping = true, nil, false
}

// enter runs do as soon as the process is not paused.
func (w *world) enter(l *life, do func()) {
	switch {
	case l.dead || w.result.Broken != "":
	case w.Now < l.m.paused || len(l.inbox) > 0: // waiting work keeps its order
		if l.inbox = append(l.inbox, do); len(l.inbox) == 1 {
			l.wake()
		}
	default:
		do()
	}
}

// wake handles the inbox that filled during a pause.
func (l *life) wake() {
	w := l.m.w
	w.After(max(l.m.paused, w.Now)-w.Now, func() {
		if w.Now < l.m.paused {
			l.wake()
			return
		}
		inbox := l.inbox
		l.inbox = nil
		for _, do := range inbox {
			if !l.dead {
				do()
			}
		}
	})
}

// event gives the machine an event and performs its actions.
func (l *life) event(do func()) {
	if l.dead || l.core == nil {
		return
	}
	do()
	for actions := l.core.Actions(); len(actions) > 0; actions = l.core.Actions() {
		for _, a := range actions {
			l.perform(a)
		}
	}
	if err := l.core.CheckInvariants(); err != nil && l.m.w.result.Broken == "" {
		l.m.w.result.Broken = fmt.Sprintf("%v: %v", l, err)
	}
	s := l.core.Status(l.now())
	l.calm = l.calm || s.Reading && l.m.w.calm
	if s.Reading && s.Joined != l.on {
		l.on = s.Joined
		l.m.w.result.Views++
		l.m.w.note("%v reads in view %x", l, l.on)
	}
}

// soon performs something that a pause may come before.
func (l *life) soon(do func()) {
	w := l.m.w
	w.After(w.rng.Uint64N(ms/10), func() { w.enter(l, do) })
}

func (l *life) perform(a core.Action) {
	w := l.m.w
	if w.traced {
		w.note("%v: %T%v", l, a, a)
	}
	switch a := a.(type) {
	case core.Propose:
		l.propose(entry{kind: attributes, member: l.m.id, record: a.Record})
	case core.Renew:
		asked := l.now()
		l.readIndex(func(ok bool) {
			l.event(func() { l.core.Renewed(l.now(), asked, l.sample(), ok) })
		})
	case core.Look:
		l.soon(func() { l.event(func() { l.core.Applied(l.now(), l.sample()) }) })
	case core.ReadObjects:
		l.chain.read(a)
	case core.WriteObject:
		l.chain.write(a)
	case core.Ready:
		for _, id := range a.Reads {
			l.reads[id].ready(a.Point)
			delete(l.reads, id)
		}
	case core.Slow:
		for _, id := range a.Reads {
			w.result.Slow[a.Why]++
			l.reads[id].slow()
			delete(l.reads, id)
		}
	case core.Show:
		for _, id := range a.Reveals {
			l.soon(l.reveals[id])
			delete(l.reveals, id)
		}
	case core.Left:
		for _, id := range a.Leaves {
			l.soon(l.leaves[id])
			delete(l.leaves, id)
		}
	}
}

// reveal calls then when a point may be shown.
func (l *life) reveal(p core.Point, kind core.Kind, then func()) {
	if l.core == nil {
		then()
		return
	}
	id := l.m.w.id()
	l.reveals[id] = then
	l.event(func() {
		if l.core.MayShow(p) {
			delete(l.reveals, id)
			l.soon(then)
			return
		}
		l.core.Advance(l.point())
		l.core.Reveal(l.now(), id, p, kind)
	})
}
