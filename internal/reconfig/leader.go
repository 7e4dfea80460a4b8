package reconfig

import (
	"time"

	"github.com/netcraq/netcraq/internal/topology"
)

// Options are a leader's. The zero value of each means its default.
type Options struct {
	FormWith    int           // nodes that have to join before chains are made; default Settings.Replicas
	RepairAfter time.Duration // a node that is suspected for so long is replaced; default 1 s
	ObeyWithin  time.Duration // a node that beats, but does not obey, is suspected; default 2 s
	Resend      time.Duration // an order that is not confirmed is sent again; default 50 ms
	StallAfter  time.Duration // a copy that does not go on is given up; default 10 s
	Retry       time.Duration // a node that could not complete a copy, or was suspected again, joins no chain for so long, twice as long each time; default 1 s
	LearnNode   int           // copies to or from one node at a time; default 8
	LearnAll    int           // copies in the cluster at a time; default 2 for each node
}

// Leader decides who is in which chain, and brings the nodes there. Its caller
//
//   - makes one when it was elected, from the state as it was stored then, and throws it away when [Leader.Ended];
//   - tells it what arrives, with the time since any moment on a clock that does not go back, and calls [Leader.Tick] several times in each
//     Settings.Beat;
//   - does, after each call, what [Leader.Effects] says, in order. Messages may be lost, repeated and reordered.
type Leader struct {
	term    uint64
	state   *State
	options Options
	effects []Effect
	ended   bool
}

// NewLeader makes the leader of a term, which grows with each. It owns the state from now on.
func NewLeader(term uint64, s *State, controllers int, o Options, now time.Duration) *Leader {
	return &Leader{term: term, state: s, options: o}
}

// Term is the leader's.
func (l *Leader) Term() uint64 { return l.term }

// State is what is durable. It changes in [Leader.Stored] only and must not be written to.
func (l *Leader) State() *State { return l.state }

// Ended reports whether a change was refused: another leads.
func (l *Leader) Ended() bool { return l.ended }

// Tick lets time pass.
func (l *Leader) Tick(now time.Duration) {}

// Hello takes a node's registration or return. An error says what its operator has to do; otherwise the node is welcome as soon as the
// state has it by that name, with that incarnation.
func (l *Leader) Hello(now time.Duration, h Hello) error { return nil }

// Inventory takes what a node has.
func (l *Leader) Inventory(now time.Duration, i Inventory) {}

// Beat takes a node's beat; also one that gets no grant for it.
func (l *Leader) Beat(now time.Duration, b Beat) {}

// Stored takes the outcome of a [Store]: not ok means that this leader no longer is one.
func (l *Leader) Stored(now time.Duration, change uint64, ok bool) {}

// Fenced takes a controller's answer to a [Fence].
func (l *Leader) Fenced(now time.Duration, controller string, change uint64, left time.Duration) {}

// Planned takes the outcome of a [Place].
func (l *Leader) Planned(now time.Duration, number uint64, p *topology.Plan) {}

// Operate takes a command, and returns the number of the change that will have it. An error says why it cannot be, and
// nothing changes.
func (l *Leader) Operate(now time.Duration, c Command) (change uint64, err error) { return 0, nil }

// Status is what the leader knows now. It looks at every shard.
func (l *Leader) Status() Status { return Status{} }
