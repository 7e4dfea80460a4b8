package core

// Options configure a [Machine]. Times are in nanoseconds.
type Options struct {
	Member uint64 // the own member's ID
	Life   uint64 // random, another one for each start of the process; not 0
	TTL    int64  // how long others wait for a member that is silent
	Every  int64  // the longest time between two ticks, and between two pushes of what nobody waits for
	// Patience is how long something may wait for a push before the member leaves the generation.
	Patience int64
	// Rest is how long a member that left by itself waits before it joins again.
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

// Machine is one life of a member. All methods but [Machine.Actions] are events.
type Machine struct {
	o       Options
	actions []Action
}

// New makes the machine of a life that has just begun. It wants to join from the first sample on, unless [Machine.Want] says no.
func New(o Options) *Machine { return &Machine{o: o} }

// Actions returns what the caller has to do, in this order, and forgets it.
func (m *Machine) Actions() []Action {
	a := m.actions
	m.actions = nil
	return a
}

// Want says whether the member is to join. An operator switches chain reads off and on with it.
func (m *Machine) Want(now int64, join bool) {}

// Applied takes the state that the own member has applied.
func (m *Machine) Applied(now int64, s Sample) {}

// Advance takes the point that the own member has applied: the revision was read before the index. It is cheaper than [Machine.Applied],
// and called before each [Machine.Reveal].
func (m *Machine) Advance(now int64, p Point) {}

// Renewed answers [Renew]: s was taken after a linearizable read of etcd that began at asked. ok is false if that read failed.
func (m *Machine) Renewed(now, asked int64, s Sample, ok bool) {}

// Objects answers [ReadObjects]: the objects in the order of the call. ok is false if the chain did not answer for all.
func (m *Machine) Objects(now int64, call uint64, found []Found, ok bool) {}

// Written answers [WriteObject]. version is that of the key if the outcome is [Done].
func (m *Machine) Written(now int64, call uint64, outcome Outcome, version uint64) {}

// Tick lets time pass.
func (m *Machine) Tick(now int64) {}

// Read asks for the point of a linearizable read. [Ready] or [Slow] names id once.
func (m *Machine) Read(now int64, id uint64) {}

// Reveal asks to show p, which the own store has. [Show] names id once. The index of p is 0 unless what is shown has no revision of its own,
// as a change of authentication.
func (m *Machine) Reveal(now int64, id uint64, p Point, kind Kind) {}

// Leave ends the fast reads of this member and asks to be told by [Left], with id, when no other member reads fast either and
// nothing is shown that others miss. The member stays out until [Machine.Return] with the same id. A graceful stop, and the
// addition or removal of a member, wait for [Left]. It comes within the time to live at most while etcd has a leader.
func (m *Machine) Leave(now int64, id uint64) {}

// Return ends a [Machine.Leave]. After a change of members it is called when the own store has applied the change.
func (m *Machine) Return(now int64, id uint64) {}

// Status is what operators see.
type Status struct {
	State   State  // by the last sample
	Joined  uint64 // the generation in which this member reads and pushes; 0: none
	Reading bool   // a read would be asked from the chain now
	Free    bool   // nothing waits for pushes: all may be shown
	Known   Point  // the register, as far as this member knows
}

// Status returns the state at a time.
func (m *Machine) Status(now int64) Status { return Status{} }
