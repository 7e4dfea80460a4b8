package core

import "slices"

// Options configure a [Machine]. Times are in nanoseconds.
type Options struct {
	Member uint64 // the own member's ID
	Life   uint64 // random, another one for each start of the process
	// TTL bounds how long a member that nobody hears may read fast: its right to do so ends by nine tenths of TTL.
	TTL int64
	// Every is the longest time between two ticks. What nobody waits for is left to other members for as long.
	Every int64
	// Patience is how long something may wait for a push before the member leaves the view.
	Patience int64
	// Rest is how long a member waits after the chain has failed it before it joins again.
	Rest    int64
	Without Rule
}

// Kind says what is to be shown.
type Kind uint8

// The kinds.
const (
	Write Kind = iota // the answer of a request that changed something
	Local             // anything else that the own store has
)

// Machine is one life of a member. All methods but [Machine.Actions], [Machine.Status] and [Machine.CheckInvariants] are
// events.
type Machine struct {
	o       Options
	actions []Action
	calls   uint64 // number of the last call of the chain

	// What the operator wants. While something of leaves waits, the member has joined no view.
	want    bool
	leaves  []leave
	resting int64 // until when the member does not join

	// The newest sample, state and own are of it. own has been in all samples since ownSince. applied never falls.
	sample   Sample
	sampled  bool
	state    State
	own      Record
	ownSince int64
	applied  Point

	// The own record. record is what this member wants to have: with a view it has a number too. sent is the last
	// proposal, whose serial is record's. drawn only rises.
	record Record
	sent   Record
	sentAt int64
	drawn  uint64 // numbers and serials

	// The own view. left is the view that this member joined last, and set its members, of which it is one. Others may
	// read fast in it while exposed: from before it joins until all of set have left, or its object does not count.
	set     []uint64
	exposed bool
	left    uint64 // 0: of an earlier life

	// The right to read fast, in the order in which it was asked for. Without a view there is none.
	renewing bool
	asked    int64 // the last renewal
	grants   []grant
	valid    bool // a grant was valid at the last tick

	// The register of the view. known never falls in a view, and the register has at least known.
	object object
	known  Point
	owed   owed
	taken  uint64
	lacks  uint64
	since  int64 // of lacks

	// What waits: reads for the bundle after the present one, reveals in the order in which they were asked for.
	reads   []uint64
	bundle  bundle
	reveals []reveal
	looking bool // [Look] has been asked for
}

// leave is a [Machine.Leave].
type leave struct {
	id   uint64
	told bool
}

// grant is the right to read fast.
type grant struct {
	asked int64
	floor int64 // the revision of the sample
}

// reveal is a [Machine.Reveal] that waits.
type reveal struct {
	id    uint64
	point Point
	since int64
}

// New makes the machine of a life that has just begun. It wants to join from the first sample on, unless
// [Machine.Want] says no.
func New(o Options) *Machine { return &Machine{o: o, want: true, exposed: true, drawn: o.Life} }

func (m *Machine) on(r Rule) bool { return m.o.Without&r == 0 }
func (m *Machine) emit(a Action)  { m.actions = append(m.actions, a) }

// Actions returns what the caller has to do, in this order, and forgets it.
func (m *Machine) Actions() []Action {
	a := m.actions
	m.actions = nil
	return a
}

// Want says whether the member is to join. An operator switches chain reads off and on with it.
func (m *Machine) Want(now int64, join bool) {
	m.want = join
	m.proceed(now)
}

// Applied takes the state that the own member has applied.
func (m *Machine) Applied(now int64, s Sample) {
	m.looking = false
	m.take(now, s)
	m.proceed(now)
}

// Advance takes the point that the own member has applied: the revision was read before the index. It is called
// before each [Machine.Reveal], and is cheaper than [Machine.Applied].
func (m *Machine) Advance(p Point) { m.applied = m.applied.join(p) }

// Renewed answers [Renew]: s was taken after a linearizable read of etcd that began at asked. ok is false if that
// read failed.
func (m *Machine) Renewed(now, asked int64, s Sample, ok bool) {
	m.renewing = false
	if ok {
		m.take(now, s)
		if m.reading() {
			g := grant{asked: asked}
			if m.on(Floor) {
				g.floor = s.Applied.Revision
			}
			m.grants = append(m.grants, g)
			m.readAll(now, true)
		}
	}
	m.proceed(now)
}

// Tick lets time pass.
func (m *Machine) Tick(now int64) {
	m.grants = slices.DeleteFunc(m.grants, func(g grant) bool { return now-g.asked >= m.o.TTL && m.on(Session) })
	m.valid = m.granted(now, m.known.Revision)
	if m.joined() && len(m.reveals) > 0 && now-m.reveals[0].since >= m.o.Patience {
		m.failed(now)
	}
	m.proceed(now)
}

// Read asks for the point of a linearizable read. [Ready] or [Slow] names id once.
func (m *Machine) Read(now int64, id uint64) {
	switch {
	case !m.reading():
		m.emit(Slow{[]uint64{id}, NotOn})
	case len(m.grants) == 0:
		m.emit(Slow{[]uint64{id}, NoSession})
	default:
		m.reads = append(m.reads, id)
		m.readAll(now, false)
	}
}

// Reveal asks to show p, which the own store has. [Show] names id once. The index of p is 0 unless what is shown has
// no revision of its own, as a change of authentication.
func (m *Machine) Reveal(now int64, id uint64, p Point, kind Kind) {
	if !m.on(Push) || kind == Local && !m.on(Reveal) {
		m.emit(Show{[]uint64{id}})
		return
	}
	m.reveals = append(m.reveals, reveal{id, p, now})
	m.applied = m.applied.join(p)
	m.proceed(now)
}

// Leave ends the fast reads of this member and asks to be told by [Left], with id, when no other member can read fast
// without what this one shows. The member stays out until [Machine.Return] with the same id. A graceful stop, and the
// addition or removal of a member, wait for [Left]. While etcd has a leader it comes within little more than the time
// to live.
func (m *Machine) Leave(now int64, id uint64) {
	if !m.on(Members) {
		m.emit(Left{[]uint64{id}})
		return
	}
	m.leaves = append(m.leaves, leave{id: id})
	m.proceed(now)
}

// Return ends a [Machine.Leave]. After a change of members it is called when the own store has applied the change.
func (m *Machine) Return(now int64, id uint64) {
	m.leaves = slices.DeleteFunc(m.leaves, func(l leave) bool { return l.id == id })
	m.proceed(now)
}

// proceed does what can be done.
func (m *Machine) proceed(now int64) {
	m.join(now)
	m.settle(now)
	m.look(now)
	m.changeObject(now)
	m.propose(now)
	m.renew(now)
	m.show(now)
}

// Status is what operators see.
type Status struct {
	State   State  // by the last sample
	Joined  uint64 // the view in which this member pushes; 0: none
	Reading bool   // reads are asked from the chain
	Free    bool   // nothing waits for a push
	Known   Point  // the register, as far as this member knows
	// Taken counts how often another cluster has written the own object.
	Taken uint64
	// Lacks is a member whose object the chain does not have although all have joined, and LacksFor the time since it was
	// first missing; 0: there is none.
	Lacks    uint64
	LacksFor int64
}

// Status returns the state at a time.
func (m *Machine) Status(now int64) Status {
	s := Status{
		State: m.state, Joined: m.record.View, Reading: m.reading() && m.granted(now, m.known.Revision),
		Free: !m.joined() && (!m.exposed || m.waited(now)), Known: m.known,
		Taken: m.taken, Lacks: m.lacks,
	}
	if s.Lacks != 0 {
		s.LacksFor = now - m.since
	}
	return s
}
