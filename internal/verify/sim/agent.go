package sim

import (
	"reflect"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

const (
	resyncEvery = 5 * time.Millisecond
	longestWipe = 3 * time.Millisecond
)

// agent does the work of internal/node/agent around a reconfig.Member.
type agent struct {
	n         *node
	member    *reconfig.Member
	lease     reconfig.Lease
	id        reconfig.NodeID // 0: no controller has registered it yet
	connected []bool          // by controller: whether it has
	beats     []reconfig.Beats
	reported  reconfig.Heartbeat
	wiping    bool
	copies    map[uint64]*copyJob
	dirty     []uint64 // by key: the version in which it was dirty at the last look
	refused   []uint64 // by key: the version for which a CAS or ADD was last refused as busy
	departs   func()   // it has announced its end, and ends with this; nil: it has not
}

func (n *node) startAgent() {
	if !n.up || n.agent != nil {
		return
	}
	member, err := reconfig.NewMember(n, reconfig.MemberOptions{
		Self: n.endpoint().addr(), Shards: n.w.Shards, Kept: n.kept, Term: n.term, Without: n.w.Without.Control,
	})
	if err != nil {
		n.w.watch.fail(err)
		return
	}
	n.kept = true
	n.heartKey = wire.Secret{1: byte(n.number)}
	for i := range n.heartKey[2:] {
		n.heartKey[2+i] = byte(n.rng.Uint32())
	}
	n.agent = &agent{
		n: n, member: member, connected: make([]bool, n.w.Controllers), beats: make([]reconfig.Beats, n.w.Controllers),
		copies: make(map[uint64]*copyJob),
		dirty:  make([]uint64, len(n.w.keys)), refused: make([]uint64, len(n.w.keys)),
	}
	n.w.note(every, every, "%s: its agent starts", n.name)
	n.agent.register()
	n.agent.tick()
	n.agent.resync()
	n.agent.work()
	if n.w.Sessions < tableSize {
		n.agent.forget(chain.NewIdleSessions())
	}
	if n.w.Sweep > 0 {
		n.agent.sweep(reconfig.NewSweeper(n.w.Shards))
	}
}

func (n *node) endAgent() {
	n.w.note(every, every, "%s: its agent ends", n.name)
	a, incarnation := n.agent, n.incarnation
	n.agent = nil
	for i, c := range n.w.controllers {
		if a.connected[i] && a.id != 0 {
			n.w.net.carry(control, n.endpoint(), c.endpoint(), func(bool) { c.departed(a, incarnation) })
		}
	}
}

// depart announces the end of the agent, which ends when it is released, or after some time. The next one starts when
// it was away for a while.
func (a *agent) depart(within, away uint64) {
	n := a.n
	n.w.note(every, every, "%s: its agent announces its end", n.name)
	a.departs = func() {
		if n.agent == a {
			n.endAgent()
			n.w.after(away, n.startAgent)
		}
	}
	a.heartbeat()
	n.w.after(within, func() { a.departs() })
}

// released ends an agent that has announced its end. That of an earlier leader does not count.
func (a *agent) released(term uint64) {
	if a.departs != nil && term >= a.member.Term() {
		a.n.w.result.Faults[Depart]++
		a.departs()
	}
}

// soon does something when the agent can, if it still runs then.
func (a *agent) soon(do func()) {
	n := a.n
	switch busy := max(n.asleep, n.paused); {
	case n.agent != a || !n.up:
	case n.w.now < busy:
		n.w.events.push(busy, func() { a.soon(do) })
	default:
		do()
	}
}

// after does something when the node's clock has gone on by d.
func (a *agent) after(d time.Duration, do func()) {
	a.n.w.after(a.n.clock.takes(d), func() { a.soon(do) })
}

// tick sends the heartbeats, again and again.
func (a *agent) tick() {
	a.after(reconfig.NextLook(a.n.w.Beat, a.heartbeat()), a.tick)
}

// sweep looks for tombstones, again and again, and tells the controllers. Tables always count as full: few are enough.
func (a *agent) sweep(s *reconfig.Sweeper) {
	n := a.n
	tombstones, err := s.Sweep(n)
	n.w.watch.fail(err)
	report := reconfig.Sweep{Node: a.id, Incarnation: n.incarnation, Shards: tombstones, Pressing: true}
	for i, c := range n.w.controllers {
		if a.connected[i] && a.id != 0 {
			n.w.net.carry(control, n.endpoint(), c.endpoint(), func(bool) { c.swept(report) })
		}
	}
	a.after(n.w.Sweep, func() { a.sweep(s) })
}

// forgetEvery is the time between two looks for idle sessions.
const forgetEvery = 20 * time.Millisecond

// forget looks for idle sessions, again and again, and makes room in a table that fills up (W12).
func (a *agent) forget(idle *chain.IdleSessions) {
	n := a.n
	after := uint64(n.w.forgetAfter())
	if n.w.Without.Chain&chain.W12 != 0 {
		after = 0
	}
	due, err := idle.Look(n.time(), after, n.plane.Sessions)
	n.w.watch.fail(err)
	if chain.Pressing(idle.Marks(), n.w.Sessions) {
		for k, seq := range due {
			n.w.watch.fail(n.plane.DropSession(k, seq))
		}
		n.w.result.Forgotten += len(due)
	}
	a.after(forgetEvery, func() { a.forget(idle) })
}

func (a *agent) resync() {
	for key := range a.dirty {
		a.resyncObject(key)
	}
	a.after(resyncEvery, a.resync)
}

// resyncObject resyncs an object that has been dirty since the last check (W9).
func (a *agent) resyncObject(number int) {
	n, key := a.n, a.n.w.keys[number]
	o := n.seen[number]
	before := a.dirty[number]
	if a.dirty[number] = 0; o.Clean() {
		return
	}
	if a.dirty[number] = o.Version; before != o.Version {
		return
	}
	shard := key.Shard(n.w.Shards)
	config := n.configs[shard]
	session, writer := n.writer(key, o.Version)
	if s, ok := chain.Resync(config, shard, key, o, writer, session, n.ownSession()); ok {
		a.send("resyncs with", s)
	}
}

// busy resyncs an object after a write was refused as busy. The plane reports the second such refusal of a version (W9).
func (a *agent) busy(key wire.Key) {
	number := a.n.w.keyNumber(key)
	if number < 0 {
		return
	}
	o := a.n.seen[number]
	before := a.refused[number]
	if a.refused[number] = o.Version; before != o.Version {
		return
	}
	shard := key.Shard(a.n.w.Shards)
	if s, ok := chain.Probe(a.n.configs[shard], shard, key, o); ok {
		a.soon(func() { a.send("asks", s) })
	}
}

func (a *agent) send(how string, s chain.Send) {
	n := a.n
	n.w.noteMessage(how, n.endpoint().addr(), s.To, &s.Message)
	n.w.send(packet{n.endpoint().addr(), s.To, s.Message.Append(nil)})
}

// ownSession is the session that a node uses for writes whose writer it does not know.
func (n *node) ownSession() uint64 { return 1<<63 | n.incarnation>>8 }

// writer finds the session whose last write gave the object its version.
func (n *node) writer(key wire.Key, version uint64) (session uint64, writer chain.Session) {
	n.w.watch.fail(n.plane.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		if s.WriterOf(key, version) && (session == 0 || k.Session < session) {
			session, writer = k.Session, s
		}
		return true
	}))
	return session, writer
}

// work does the member's work besides its orders.
func (a *agent) work() {
	work := a.member.Work()
	if len(work.Wipe)+len(work.Doubt) > 0 && !a.wiping {
		a.wiping = true
		a.after(time.Duration(a.n.rng.Int64N(int64(longestWipe))), func() { a.wipe(work.Wipe, work.Doubt) })
	}
	a.copy(work.Copies)
}

func (a *agent) wipe(shards, doubted []uint16) {
	a.wiping = false
	a.n.w.watch.fail(a.n.drop(shards))
	a.n.w.watch.fail(a.n.doubt(doubted))
	a.n.w.watch.fail(a.member.Wiped(shards))
	a.n.w.watch.fail(a.member.Doubted(doubted))
	a.progressed()
}

// progressed is called when the member may have got further.
func (a *agent) progressed() {
	a.work()
	a.heartbeat()
}

func (a *agent) order(o reconfig.Order) {
	a.n.w.noteOrder(a.n, &o)
	term := a.member.Term()
	a.n.term = max(a.n.term, o.Term)
	a.n.w.watch.fail(a.member.Order(o))
	if now := a.member.Term(); now < a.n.term {
		a.n.w.broken(every, every, "C5: %s applies orders of term %d after term %d", a.n.name, now, a.n.term)
	}
	if a.member.Term() != term {
		for i, c := range a.n.w.controllers {
			if a.connected[i] {
				a.inventory(c)
			}
		}
	}
	a.progressed()
}

// register calls each controller that has not welcomed the node.
func (a *agent) register() {
	n := a.n
	h := reconfig.Registration{
		Name: n.name, Addr: n.endpoint().addr(), API: n.name, Capacity: 1, Incarnation: n.incarnation,
		CellBytes: n.w.options().CellBytes,
		Cluster:   n.w.store.state.Settings.Cluster, Shards: n.w.Shards,
	}
	for i, c := range n.w.controllers {
		if !a.connected[i] {
			n.w.net.carry(control, n.endpoint(), c.endpoint(), func(bool) { c.register(a, h) })
		}
	}
	a.after(redial, a.register)
}

// welcome opens the membership stream to a controller.
func (a *agent) welcome(c *controller, id reconfig.NodeID) {
	a.beats[c.number] = reconfig.Beats{}
	if a.id, a.connected[c.number] = id, true; a.id != 0 {
		a.tellHeart(c)
		a.inventory(c)
	}
}

// inventory sends a controller the inventory of the node, and repeats it until the controller has received it.
func (a *agent) inventory(c *controller) {
	if a.id == 0 {
		return
	}
	i := a.member.Inventory()
	i.Node, i.Incarnation = a.id, a.n.incarnation
	received := false
	var tell func()
	tell = func() {
		if !received {
			a.n.w.net.carry(control, a.n.endpoint(), c.endpoint(), func(bool) { received = true; c.inventory(i) })
			a.after(redial, tell)
		}
	}
	tell()
}

// heartbeat tells the controllers that need it how the node is, and reports whether all do without most heartbeats.
func (a *agent) heartbeat() (spared bool) {
	n := a.n
	if a.id == 0 {
		return false
	}
	status := a.member.Heartbeat()
	granted := a.renewFromHeartbeats()
	b := a.lease.Stamp(status, n.time())
	b.Node, b.Incarnation, b.Departing = a.id, n.incarnation, a.departs != nil
	news := !reflect.DeepEqual(status, a.reported)
	a.reported = status
	now := b.Stamp
	spared = true
	for i := range n.w.controllers {
		spared = (!a.connected[i] || a.beats[i].See(now, n.w.Beat, granted.Ends[i])) && spared
	}
	if spared {
		b.Stamp = 0
	}
	for i, c := range n.w.controllers {
		if a.connected[i] && a.beats[i].Due(now, n.w.Beat, news || b.Departing, spared) {
			n.w.net.carry(control, n.endpoint(), c.endpoint(), func(bool) { c.heartbeat(a, b) })
		}
	}
	return spared
}

func (a *agent) granted(c *controller, g reconfig.Grant) {
	a.renewFromHeartbeats()
	if a.lease.Grant(c.name(), g) {
		a.n.renew(a.lease.Until())
	}
}

// renewFromHeartbeats extends the leases of shards to the end that heartbeats granted, and returns their grants.
func (a *agent) renewFromHeartbeats() chain.Granted {
	granted, err := a.n.plane.Granted()
	a.n.w.watch.fail(err)
	if a.lease.Void(granted.Since) {
		a.n.renew(0)
	}
	if a.lease.Extend(granted.Until) {
		a.n.renew(granted.Until)
	}
	return granted
}
