package reconfig

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Options configure a leader. A zero value means the default.
type Options struct {
	FormWith    int           // nodes that have to join before chains are made; default Settings.Replicas
	RepairAfter time.Duration // a node that is suspected for so long is replaced; default 1 s
	ApplyWithin time.Duration // a node that sends heartbeats, but does not apply its orders, is suspected; default 2 s
	Resend      time.Duration // an order that is not confirmed is sent again; default 50 ms
	StallAfter  time.Duration // a copy that does not go on is given up; default 10 s
	Retry       time.Duration // first pause after a failed copy or a repeated suspicion, doubled each time; default 1 s
	LearnNode   int           // shards that are copied to or from one node at a time; default 128
	LearnPeers  int           // nodes on the other side of these copies; default 32: each source scans its store for each
	Pace        time.Duration // between two starts of copies, so that repairs leave capacity to clients; default 200 ms
	TagsRest    time.Duration // least time in a phase of tags: clients learn of it, but confirm nothing; default 1 s
	Without     Rule          // rules switched off; zero outside tests
}

func (o Options) withDefaults(s *Settings) Options {
	return Options{
		FormWith:    cmp.Or(o.FormWith, s.Replicas),
		RepairAfter: cmp.Or(o.RepairAfter, time.Second),
		ApplyWithin: cmp.Or(o.ApplyWithin, 2*time.Second),
		Resend:      cmp.Or(o.Resend, 50*time.Millisecond),
		StallAfter:  cmp.Or(o.StallAfter, 10*time.Second),
		Retry:       cmp.Or(o.Retry, time.Second),
		LearnNode:   cmp.Or(o.LearnNode, 128),
		LearnPeers:  cmp.Or(o.LearnPeers, 32),
		Pace:        cmp.Or(o.Pace, 200*time.Millisecond),
		TagsRest:    cmp.Or(o.TagsRest, time.Second),
		Without:     o.Without,
	}
}

// Leader decides which nodes are in which chain, and configures them. [Leader.CheckInvariants] checks its fields. Its
// caller
//
//   - makes one when it was elected, from the state that was stored then, and drops it when [Leader.Ended];
//   - passes it every message, with the time of a monotonic clock, and calls [Leader.Tick] after them and when
//     [Leader.Rest] is over;
//   - carries out [Leader.Effects] in order after each call. Messages may be lost, repeated and reordered.
type Leader struct {
	term    uint64
	state   *State
	options Options
	effects []Effect
	ended   bool

	// Time. A long step of the caller's clock does not count in full: the leader was paused, or the clock jumped.
	last, time time.Duration
	woke       time.Duration // in listened: when this leader was late last
	noise      pauses        // of this leader, and of nodes that were suspected and lived
	rounds     uint64        // of heartbeats that were sent
	probed     time.Duration // when other nodes were last asked for a silent one
	lastSeen   time.Duration // when any node was
	retagged   time.Duration // when the present phase of tags began, as far as this leader knows
	listened   time.Duration // time in which some node sent heartbeats

	// Those of the state, each node also by its name.
	nodes  map[NodeID]*node
	names  map[string]NodeID
	shards []shard

	unaccounted int              // nodes that may have shards from an earlier term that this leader does not know of
	byHeartbeat *list.List       // of *node: those in good standing, the oldest heartbeat first
	busy        map[NodeID]*node // with orders, or without an inventory; removed nodes are not
	unsent      map[NodeID]*node // with orders that were never sent, among others
	leaseWaits  []*leaseWait     // for changes that are stored
	settled     bool             // no lease is one of an earlier set of controllers (L7)

	// Contents of the next change.
	storing       bool // a change is under way: the next one of the state
	dirty         bool
	registrations map[string]Registration // by name; of nodes that are new or changed
	commands      []Command
	suspects      map[NodeID]string // and why
	claims        map[NodeID]*node  // nodes with a registration of another incarnation
	gone          map[NodeID]bool   // nodes whose state is gone
	back          map[NodeID]bool
	trims         map[uint16]bool
	completed     map[uint16]bool
	given         map[uint16]string // copies that are given up, and why

	floors  map[uint16]uint64 // to be raised to
	bars    map[uint16]bool   // to be raised to the floor
	copying map[uint16]bool   // shards with a learner, or frozen for a node
	keepers map[NodeID]bool   // nodes that left shards and keep them
	leaving map[uint16]NodeID
	work    repair
	copied  uint64
	draft   *draft // of the change under way
	change  Change
}

// NewLeader makes the leader of a term, which grows with each. It owns the state from now on.
func NewLeader(term uint64, s *State, o Options, now time.Duration) *Leader {
	l := &Leader{
		term: term, state: s, options: o.withDefaults(&s.Settings), last: now,
		nodes: make(map[NodeID]*node, len(s.Nodes)), names: make(map[string]NodeID, len(s.Nodes)), shards: make([]shard, len(s.Shards)),
		byHeartbeat: list.New(), busy: make(map[NodeID]*node), unsent: make(map[NodeID]*node),
		registrations: make(map[string]Registration), suspects: make(map[NodeID]string),
		claims: make(map[NodeID]*node), gone: make(map[NodeID]bool), back: make(map[NodeID]bool),
		trims: make(map[uint16]bool), completed: make(map[uint16]bool), given: make(map[uint16]string),
		floors: make(map[uint16]uint64), bars: make(map[uint16]bool),
		copying: make(map[uint16]bool), keepers: make(map[NodeID]bool), leaving: make(map[uint16]NodeID),
	}
	var fenced []NodeID
	for _, id := range slices.Sorted(maps.Keys(s.Nodes)) {
		n := l.newNode(id)
		switch standing := s.Nodes[id].Standing; {
		case standing == Removed:
			n.leaseOver = true
		case standing.Fenced():
			fenced = append(fenced, id)
			l.unaccounted++
		default:
			l.unaccounted++
			l.watch(n)
		}
	}
	for number := range s.Shards {
		l.index(uint16(number), &Shard{}, &s.Shards[number])
		l.trims[uint16(number)] = len(fenced) > 0 && s.Shards[number].Epoch > 0
	}
	l.awaitLeases(s.Change, fenced)
	l.awaitSettled()
	l.replan(l.options.RepairAfter)
	l.dirty = true
	l.step()
	return l
}

// Term returns the leader's term.
func (l *Leader) Term() uint64 { return l.term }

// State returns the durable state. It changes in [Leader.Stored] only. The caller must not write to it.
func (l *Leader) State() *State { return l.state }

// Ended reports whether a change was refused: another leads.
func (l *Leader) Ended() bool { return l.ended }

// Tick advances the time.
func (l *Leader) Tick(now time.Duration) {
	if l.begin(now) {
		l.checkHeartbeats()
		l.checkReach()
		l.checkOrders()
		l.checkLeaseWaits()
		l.checkCopies()
		l.checkPlacement()
		l.checkTags()
		l.step()
	}
}

// Register handles a node's registration. An error tells the operator how to correct it. Otherwise the node is welcome
// as soon as the state has it by that name, with that incarnation.
func (l *Leader) Register(now time.Duration, h Registration) error {
	if !l.begin(now) {
		return nil
	}
	err := l.register(h)
	l.step()
	return err
}

// Inventory handles a node's inventory.
func (l *Leader) Inventory(now time.Duration, i Inventory) {
	if n := l.nodes[i.Node]; l.begin(now) && n != nil && i.Term == l.term && l.lives(n, i.Incarnation) {
		l.inventory(n, i.Configs)
		l.step()
	}
}

// Heartbeat handles a node's heartbeat, also of a node that gets no grant.
func (l *Leader) Heartbeat(now time.Duration, b Heartbeat) {
	if n := l.nodes[b.Node]; l.begin(now) && n != nil && l.lives(n, b.Incarnation) {
		l.heartbeat(n, &b)
		l.step()
		l.release(n)
	}
}

// Asked records that a heartbeat was sent to the data planes of all nodes.
func (l *Leader) Asked(now time.Duration) {
	if l.begin(now) {
		l.rounds++
	}
}

// Alive handles the answer of a node's data plane to a heartbeat. It does not depend on the node's agent.
func (l *Leader) Alive(now time.Duration, id NodeID, incarnation uint64) {
	if n := l.nodes[id]; l.begin(now) && n != nil && l.lives(n, incarnation) {
		l.received(n)
		n.direct, n.answered, n.round = true, l.listened, l.rounds
		l.step()
	}
}

// Stored handles the outcome of a [Store]: not ok means that this leader has lost the leadership.
func (l *Leader) Stored(now time.Duration, change uint64, ok bool) {
	if l.begin(now) {
		l.stored(change, ok)
		l.step()
	}
}

// LeaseLeft handles a controller's answer to a [LeaseWait].
func (l *Leader) LeaseLeft(now time.Duration, controller string, change uint64, left time.Duration) {
	if l.begin(now) {
		l.answered(controller, change, left)
		l.step()
	}
}

// Planned handles the outcome of a [Place].
func (l *Leader) Planned(now time.Duration, number uint64, p *topology.Plan) {
	if l.begin(now) {
		l.planned(number, p)
		l.step()
	}
}

// Operate accepts a command, and returns the number of the change that will contain it. If it returns an error,
// nothing changes.
func (l *Leader) Operate(now time.Duration, c Command) (change uint64, err error) {
	if !l.begin(now) {
		return 0, errEnded
	}
	if err := l.check(c); err != nil {
		return 0, err
	}
	if raise, ok := c.(RaiseFloor); ok && !l.storing && l.hasFloor(raise.Floor) {
		return l.state.Change, nil
	}
	change = l.state.Change + 1
	if l.storing {
		change++
	}
	l.commands = append(l.commands, c)
	l.dirty = true
	l.step()
	return change, nil
}

// begin counts the time, and reports whether this leader still leads.
func (l *Leader) begin(now time.Duration) bool {
	passed := max(0, now-l.last)
	step := min(passed, l.state.Settings.Suspect/2)
	l.last = now
	l.time += step
	late := step < passed
	if late {
		l.hush(passed)
		step /= 4
	}
	if l.time-l.lastSeen <= l.state.Settings.Suspect/2 {
		l.listened += step
	}
	return !l.ended
}

// step proposes the next change, if one is due, and sends orders.
func (l *Leader) step() {
	if l.dirty && !l.storing {
		l.dirty = false
		l.propose()
	}
	l.send()
}

// sorted returns the keys of a set in ascending order, so that runs are deterministic.
func sorted[K cmp.Ordered, V any](set map[K]V) []K {
	if len(set) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(set))
}
