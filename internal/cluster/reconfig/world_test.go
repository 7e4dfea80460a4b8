package reconfig

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

const ms = time.Millisecond

// world is a cluster in one piece: real leaders, grantors, members and leases, and in place of planes sets of the writes that each
// node holds. Time is simulated. After every event it is checked that nothing acknowledged is missing where it could be read.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	now   time.Duration
	queue events
	count int
	lossy bool
	// slowCopy: how much longer a copy takes.
	slowCopy time.Duration
	slowTags time.Duration // how long a node takes at most to go to another phase of tags
	events   []string      // the leaders' log

	state   *State // as stored
	term    uint64
	options Options
	leader  *Leader
	paused  time.Duration // the leader hears nothing until then
	ticks   int           // of leaders
	rests   int           // of leaders that ended without a message
	store   bool          // it works

	grantors []*Grantor
	applyAt  map[*Grantor]time.Duration // when the last change on its way arrives
	nodes    []*testNode
	acked    [][]int // by shard
	writes   int
	writeGap []time.Duration // by shard: longest time without a complete write
	wroteAt  []time.Duration

	hook func() // after every event

	happened int // events
}

// checkedEvery is after how many events the leader's invariants are looked at.
const checkedEvery = 8

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// testNode is one node: its plane outlives its agent.
type testNode struct {
	*world
	reg     Registration
	running bool   // the agent
	powered bool   // the plane
	cut     bool   // from the controllers
	mute    bool   // it sends heartbeats, and applies no orders
	departs func() // its agent has announced its end, and does this when it is released; nil: it has not
	room    int    // writes that it can copy; 0: enough
	member  *Member
	lease   Lease
	until   time.Duration // the plane's lease
	term    uint64        // as it would be found after a restart
	configs []chain.ShardConfig
	held    []map[int]bool // writes, by shard
	// verified: how many of the acknowledged writes are known to be held.
	verified []int
	copies   map[uint64]bool
	life     int
	tags     TagStep // of its plane, as far as a node knows it: phase and since
}

func (n *testNode) Config(shard uint16) (chain.ShardConfig, error) { return n.configs[shard], nil }

func (n *testNode) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	for shard, c := range configs {
		n.configs[shard] = c
	}
	return nil
}

func (n *testNode) Import([]dataplane.KeyedObject, []dataplane.KeyedSession) error { return nil }

func testSettings(shards, replicas int) Settings {
	return Settings{
		Cluster: "test", Shards: shards, Replicas: replicas, CellBytes: 64, Heartbeat: 10 * ms, Lease: 60 * ms, Suspect: 40 * ms,
		LeaseMax: 300 * ms, SuspectMax: 300 * ms, Sure: 400 * ms,
	}
}

func newWorld(t testing.TB, seed uint64, nodes, shards, replicas int) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), store: true, slowTags: 50 * ms, applyAt: make(map[*Grantor]time.Duration),
		state: &State{Settings: testSettings(shards, replicas), Nodes: map[NodeID]*Node{}, Shards: make([]Shard, shards),
			Controllers: threeControllers()},
		acked: make([][]int, shards), writeGap: make([]time.Duration, shards), wroteAt: make([]time.Duration, shards),
	}
	for i := range 3 {
		w.grantors = append(w.grantors, NewGrantor(w.state, fmt.Sprint("c", i), 0, 0))
	}
	for range nodes {
		w.add()
	}
	w.elect()
	w.every(2*ms, func() {
		for shard := range min(shards, 16) {
			w.write(uint16(shard))
		}
	})
	return w
}

// add starts another node.
func (w *world) add() *testNode {
	i := len(w.nodes)
	n := &testNode{world: w, reg: Registration{
		Name: fmt.Sprintf("n%d", i+1), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 4411),
		API: fmt.Sprintf("api%d", i+1), Capacity: 1, CellBytes: 64,
	}}
	w.nodes = append(w.nodes, n)
	n.start(false)
	w.after(time.Duration(w.rng.IntN(int(10*ms))), func() { w.every(10*ms, n.heartbeat) })
	return n
}

func (w *world) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.queue, event{w.now + d, w.count, do})
}

func (w *world) every(d time.Duration, do func()) {
	do()
	w.after(d, func() { w.every(d, do) })
}

// send delivers a message in a while, or never.
func (w *world) send(do func()) {
	if w.lossy && w.rng.IntN(20) == 0 {
		return
	}
	w.after(w.delay(ms), do)
	if w.lossy && w.rng.IntN(20) == 0 {
		w.after(w.delay(30*ms), do)
	}
}

func (w *world) delay(most time.Duration) time.Duration {
	return time.Duration(1 + w.rng.IntN(int(most)))
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	w.until(d, func() bool { return false })
}

// until lets time pass until something is so, and reports whether it came about.
func (w *world) until(d time.Duration, so func() bool) bool {
	w.t.Helper()
	end := w.now + d
	for !so() {
		e := heap.Pop(&w.queue).(event)
		if e.at > end {
			heap.Push(&w.queue, e)
			w.now = end
			return so()
		}
		w.now = e.at
		e.do()
		if w.hook != nil {
			w.hook()
		}
		if w.happened++; w.happened%checkedEvery == 0 {
			if err := w.leader.CheckInvariants(); err != nil {
				w.fatalf("the leader: %v", err)
			}
		}
		w.check()
		if w.t.Failed() {
			w.t.FailNow()
		}
	}
	return true
}

// settle waits until every shard has all the members that it wants, and nothing is planned.
func (w *world) settle() {
	w.t.Helper()
	if !w.until(2*time.Minute, w.settled) {
		w.fatalf("not settled: %+v", w.leader.Status())
	}
}

func (w *world) settled() bool {
	l := w.leader
	if l.storing || l.work.placing || len(l.work.due) > 0 || len(l.copying)+len(l.work.moves)+len(l.work.fresh)+
		len(l.suspects)+len(l.back)+len(l.claims)+len(l.gone) > 0 {
		return false
	}
	for _, n := range w.nodes {
		id := l.names[n.reg.Name]
		r := w.state.Nodes[id]
		if r == nil || r.Standing == Removed {
			continue
		}
		if n.running && n.id() == 0 {
			return false
		}
		if n.running && !n.cut && (r.Standing.Fenced() || len(l.nodes[id].orders) > 0) || (!n.running || n.cut) != r.Standing.Fenced() {
			return false
		}
	}
	status := l.Status()
	return status.FullyReplicated == len(l.shards)
}

// settleWithout settles while a node is away.
func (w *world) settleWithout(n *testNode) {
	w.t.Helper()
	if r := w.state.Nodes[w.leader.names[n.reg.Name]]; !r.Standing.Fenced() {
		w.fatalf("node %s is %v", r.Name, r.Standing)
	}
	w.settle()
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.events[max(0, len(w.events)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf("%v: %s", w.now, fmt.Sprintf(format, args...))
}

func (w *world) logf(format string, args ...any) {
	w.events = append(w.events, fmt.Sprintf("%v ", w.now)+fmt.Sprintf(format, args...))
}

// elect makes another leader; the one before may go on.
func (w *world) elect() {
	w.term++
	w.state.Change++ // as the store does, to complete a half-written change
	term, state := w.term, w.state.clone()
	for _, g := range w.grantors {
		w.apply(g, Change{Number: state.Change})
	}
	w.logf("leader of term %d", term)
	l := NewLeader(term, state, w.options, w.now)
	w.leader = l
	w.do(l)
}

func (s *State) clone() *State {
	c := &State{Settings: s.Settings, Nodes: map[NodeID]*Node{}, Shards: slices.Clone(s.Shards), Change: s.Change,
		Controllers: s.Controllers}
	for id, n := range s.Nodes {
		copied := *n
		c.Nodes[id] = &copied
	}
	return c
}

// tell lets the present leader hear something, once it is awake.
func (w *world) tell(do func(l *Leader)) {
	l := w.leader
	if w.now < w.paused {
		w.after(w.paused-w.now, func() { w.tell(do) })
		return
	}
	do(l)
	w.do(l)
}

// do carries out a leader's effects. The present leader looks at the time before, and again when its rest is over.
func (w *world) do(l *Leader) {
	if l == w.leader {
		w.tick(l)
	}
	for _, e := range l.Effects() {
		switch e := e.(type) {
		case Store:
			w.after(w.delay(4*ms), func() { w.makeDurable(l, e.Change) })
		case Send:
			if n := w.node(e.Node); n != nil {
				w.send(func() { n.order(e.Order) })
			}
		case Release:
			if n := w.node(e.Node); n != nil {
				w.send(func() { n.released() })
			}
		case LeaseWait:
			for i := range w.grantors {
				w.askLeaseLeft(l, i, e)
			}
		case Place:
			w.after(w.delay(10*ms), func() {
				l.Planned(w.now, e.Number, e.Plan())
				w.do(l)
			})
		case Probe:
			w.probe(l, e)
		case Event:
			w.logf("leader %d: %s", l.term, e.Text)
		}
	}
}

// tick lets the leader look at the time, unless it is paused, and again when its rest is over.
func (w *world) tick(l *Leader) {
	rest := w.paused - w.now
	if rest <= 0 {
		l.Tick(w.now)
		rest = l.Rest()
	}
	w.ticks++
	ticks := w.ticks
	w.after(rest, func() {
		if w.ticks == ticks {
			w.rests++
			w.do(l)
		}
	})
}

// probe lets one of the nodes that can be asked look whether a silent one's plane answers.
func (w *world) probe(l *Leader, p Probe) {
	for _, id := range p.Through {
		if n, target := w.node(id), w.node(p.Node); n.running && !n.cut && target.powered {
			w.send(func() {
				l.Reached(w.now, p.Node)
				w.do(l)
			})
		}
	}
}

func (w *world) makeDurable(l *Leader, c Change) {
	if !w.store {
		w.after(10*ms, func() { w.makeDurable(l, c) })
		return
	}
	if l.term != w.term {
		l.Stored(w.now, c.Number, false)
		w.do(l)
		return
	}
	if err := w.state.Check(c); err != nil {
		w.fatalf("change %d: %v", c.Number, err)
	}
	w.state.Apply(c)
	w.welcomeAll(c)
	w.logf("change %d: %s", c.Number, c.text())
	for _, g := range w.grantors {
		w.apply(g, c)
	}
	w.after(w.delay(2*ms), func() {
		l.Stored(w.now, c.Number, true)
		w.do(l)
	})
}

// apply lets a controller hear of a change, after those before it.
func (w *world) apply(g *Grantor, c Change) {
	w.applyAt[g] = max(w.now+w.delay(3*ms), w.applyAt[g])
	w.after(w.applyAt[g]-w.now, func() { g.Apply(c) })
}

func (c Change) text() string {
	text := ""
	for _, n := range c.Nodes {
		text += fmt.Sprintf("%s %v; ", n.Name, n.Standing)
	}
	for _, number := range sorted(c.Shards) {
		s := c.Shards[number]
		text += fmt.Sprintf("%d: %d%v L%d H%d; ", number, s.Epoch, s.Members, s.Learner, s.FrozenFor)
	}
	return text
}

func (w *world) askLeaseLeft(l *Leader, i int, f LeaseWait) {
	w.send(func() {
		left, applied := w.grantors[i].LeaseLeft(w.now, f.Change, f.Nodes)
		if !applied {
			w.after(ms, func() { w.askLeaseLeft(l, i, f) })
			return
		}
		w.after(w.delay(ms), func() {
			l.LeaseLeft(w.now, fmt.Sprint("c", i), f.Change, left)
			w.do(l)
		})
	})
	if w.lossy {
		w.after(50*ms, func() { w.askLeaseLeft(l, i, f) })
	}
}

func (w *world) node(id NodeID) *testNode {
	r := w.state.Nodes[id]
	if r == nil {
		return nil
	}
	for _, n := range w.nodes {
		if n.reg.Name == r.Name {
			return n
		}
	}
	return nil
}
