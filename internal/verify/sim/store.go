package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

const (
	// storeDelay is how long the store takes, at most, for a write.
	storeDelay = 4 * time.Millisecond
	// watchDelay is how much later, at most, a controller hears of it.
	watchDelay = 10 * time.Millisecond
	// sessionEnds is the maximum time until another controller replaces a leader that is gone.
	sessionEnds = 150 * time.Millisecond
)

// store stands for etcd: linearizable, writes guarded by a comparison with the leader's term, watches that are late.
type store struct {
	w        *world
	rng      *rand.Rand
	state    reconfig.State
	changes  []reconfig.Change // all, in order
	revision uint64
	term     uint64
	writing  int         // writes under way
	leader   *controller // the controller elected last, whether it knows or not
}

func newStore(w *world) *store {
	var controllers []string
	for i := range w.Controllers {
		controllers = append(controllers, controllerName(i))
	}
	return &store{w: w, rng: w.stream(3), state: reconfig.State{
		Settings: reconfig.Settings{
			Cluster: "simulation", Shards: w.Shards, Replicas: w.Replicas, CellBytes: w.options().CellBytes,
			Heartbeat: w.Beat, Lease: w.Lease, Suspect: w.Suspect,
			LeaseMax: w.LeaseMax, SuspectMax: w.SuspectMax, Sure: w.Sure,
		},
		Nodes:  make(map[reconfig.NodeID]*reconfig.Node),
		Shards: make([]reconfig.Shard, w.Shards), Controllers: reconfig.FormedControllers(controllers...),
	}}
}

func (s *store) within(most time.Duration) uint64 { return s.rng.Uint64N(uint64(most)) }

// begin elects a first leader, and another one whenever the leader cannot do anything.
func (s *store) begin() {
	s.lookAfter()
}

func (s *store) lookAfter() {
	s.w.after(s.within(sessionEnds), func() {
		if s.leader == nil || !s.leader.able() || s.leader.leader == nil {
			s.elect(s.w.controllers[s.rng.IntN(len(s.w.controllers))])
		}
		s.lookAfter()
	})
}

// elect makes a controller the leader, if it can be.
func (s *store) elect(c *controller) bool {
	if !c.able() {
		return false
	}
	before := s.leader
	s.revision++
	s.term, s.leader = s.revision, c
	s.w.note(every, every, "%s is elected, term %d", c.name(), s.term)
	if before != nil && before != c { // which it hears of sooner or later
		old := before.leader
		s.w.after(s.within(sessionEnds), func() { before.resign(old) })
	}
	c.lead(s.term)
	return true
}

// copy is the state as it is stored now.
func (s *store) copy() *reconfig.State {
	state := s.state
	state.Nodes = make(map[reconfig.NodeID]*reconfig.Node, len(s.state.Nodes))
	for id, n := range s.state.Nodes {
		node := *n
		state.Nodes[id] = &node
	}
	state.Shards = slices.Clone(state.Shards)
	return &state
}

// write makes a change durable if its author still leads. It tries until that is decided.
func (s *store) write(c *controller, term uint64, change reconfig.Change, done func(ok bool)) {
	at := max(s.w.now, c.storeAway) + s.within(storeDelay)
	s.writing++
	s.w.events.push(at, func() {
		s.writing--
		ok := term == s.term && change.Number == s.state.Change+1
		if ok {
			s.commit(change)
		}
		s.w.events.push(max(s.w.now, c.storeAway)+s.within(storeDelay), func() { done(ok) })
	})
}

func (s *store) commit(change reconfig.Change) {
	s.revision++
	s.noteChange(&change)
	s.state.Apply(change)
	s.changes = append(s.changes, change)
	for _, shard := range slices.Sorted(maps.Keys(change.Shards)) {
		if s.state.Shards[shard].Lost {
			s.w.watch.lose(shard)
		}
		s.w.watch.stored(shard)
	}
	for _, c := range s.w.controllers {
		s.tell(c)
	}
}

// tell lets a controller hear of all changes, some time later.
func (s *store) tell(c *controller) {
	process, until := c.process, len(s.changes)
	s.w.events.push(max(s.w.now, c.storeAway)+s.within(watchDelay), func() { c.apply(process, until) })
}

func (s *store) noteChange(change *reconfig.Change) {
	if !s.w.traced {
		return
	}
	for i := range change.Nodes {
		n := &change.Nodes[i]
		s.w.note(every, every, "stored, change %d: %s has standing %d, incarnation %x", change.Number, n.Name,
			n.Standing, n.Incarnation>>48)
	}
	for _, shard := range slices.Sorted(maps.Keys(change.Shards)) {
		n := change.Shards[shard]
		s.w.note(int(shard), every, "stored, change %d: shard %d has epoch %d, members %v, learner %d, hold %d, lost %v",
			change.Number, shard, n.Epoch, n.Members, n.Learner, n.FrozenFor, n.Lost)
	}
}
