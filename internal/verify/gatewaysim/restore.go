package gatewaysim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

const (
	timelineKey = ownPrefix + core.TimelineName
	countKey    = ownPrefix + core.CountName
)

// lost is a history of etcd that ended when etcd was restored.
type lost struct {
	etcd     *etcd // its keys' history, and its last revision
	revealed int64
}

// nextRestore plans the next restore of etcd from a backup. etcd is away for longer than a session lasts, and than a
// message is on its way.
func (w *world) nextRestore(rng *rand.Rand) {
	w.After(uint64(rng.ExpFloat64()*float64(4*w.Lease)), func() {
		if w.calm {
			return
		}
		w.awaitMeeting(func() { w.stopEtcd(rng) })
	})
}

func (w *world) stopEtcd(rng *rand.Rand) {
	down := uint64(w.Lease) + maxDelay + 10*ms + rng.Uint64N(uint64(w.Lease))
	w.etcd.away = max(w.etcd.away, w.Now+down)
	w.note("etcd is stopped")
	w.After(down, func() {
		if !w.calm {
			w.restore(rng)
			w.nextRestore(rng)
		}
	})
}

// restore has etcd go on from a backup: of its last state, of a moment before, or of long ago. The backup's revision
// may be raised, as etcdutl's --bump-revision does.
func (w *world) restore(rng *rand.Rand) {
	e := w.etcd
	old := *e
	back := e.rev
	switch rng.IntN(6) {
	case 0:
	case 1, 2:
		back -= min(back-1, rng.Int64N(100))
	default:
		back -= min(back-1, rng.Int64N(8))
	}
	next := back
	switch {
	case rng.IntN(4) == 0:
		next += rng.Int64N(2 * (e.rev - back + 10))
	case !w.Meetings && rng.IntN(2) == 0: // gateways do not notice the restore by the revision
		next = e.rev + 1 + rng.Int64N(10)
	}
	if w.meeting.object > 1 {
		back = min(back, max(1, w.meeting.object-beginning))
		next = back
	}
	w.lost = append(w.lost, lost{&old, w.revealed})
	w.result.Restored++
	w.note("etcd is restored: its revision was %d, the backup's is %d, and it goes on from %d; %d was revealed", e.rev, back, next, w.revealed)
	w.revealed = 0
	e.goBack(back, next)
	for _, g := range w.gateways {
		if p := g.process; p != nil {
			p.reconnect()
		}
	}
	if w.meeting.object > 0 { // the gateways get bits that objects name
		for _, lease := range sortedKeys(e.owned) {
			e.end(lease)
		}
	}
	w.blind(rng)
}

// blind keeps a gateway from comparing the history: at once, or when it has compared it, while the chain does not
// answer and the gateways have begun anew, as after a power failure.
func (w *world) blind(rng *rand.Rand) {
	g, lease := w.gateways[rng.IntN(len(w.gateways))], uint64(w.Lease)
	g.blind, g.blindFor = 0, 0
	if lasts := 2*lease + rng.Uint64N(6*lease); rng.IntN(4) > 0 && w.meeting.object == 0 {
		g.blind = w.Now + lasts
		w.note("gateway %d compares no history for %d us", g.number, lasts/1000)
	} else {
		g.blindFor = lasts
		w.shards[0].away = w.Now + lease/4 + rng.Uint64N(lease/2)
		w.stopAll()
		w.bootAll()
		w.note("gateway %d compares the history once and then not for %d us", g.number, lasts/1000)
	}
}

// goBack takes etcd back to a revision, which then has another number.
func (e *etcd) goBack(back, next int64) {
	history := make(map[string][]state)
	e.keys = make(map[string]core.KV)
	for key, list := range e.history {
		n := 0
		for n < len(list) && list[n].rev <= back {
			n++
		}
		history[key] = slices.Clone(list[:n])
		if n > 0 && list[n-1].exists {
			e.keys[key] = list[n-1].kv
		}
	}
	e.history, e.rev = history, next
	e.times = slices.Clone(e.times[:back-1])
	for int64(len(e.times)) < next-1 {
		e.times = append(e.times, e.w.Now-longestBehind)
	}
	e.events = slices.DeleteFunc(slices.Clone(e.events), func(c change) bool { return c.rev > back })
	e.dir = slices.DeleteFunc(slices.Clone(e.dir), func(c core.Change) bool { return c.Rev > back })
	e.restoreLeases()
}

// restoreLeases gives leases that the backup has their whole time, as etcd's new leader does. Clients' keys get leases
// of their own.
func (e *etcd) restoreLeases() {
	e.leases, e.doomed = make(map[string]uint64), make(map[string]bool)
	for lease := range e.owned {
		e.dead[lease] = true
	}
	leases := sortedKeys(e.dead)
	e.owned = make(map[string][]string)
	for _, key := range sortedKeys(e.keys) {
		own, is := strings.CutPrefix(key, ownPrefix)
		_, name, _ := strings.Cut(own, "/")
		for _, lease := range leases {
			if is && (name == lease || e.keys[key].Value == lease) {
				e.owned[lease] = append(e.owned[lease], key)
			}
		}
	}
	for _, lease := range leases {
		if e.dead[lease] = len(e.owned[lease]) == 0; !e.dead[lease] {
			e.extend(lease)
		}
	}
	e.clients.of = make(map[string]int)
	for _, key := range sortedKeys(e.keys) {
		if e.keys[key].Leased {
			e.clients.last--
			e.clients.attach(key, e.clients.last)
			e.extendClients(e.clients.last)
		}
	}
}

// reconnect has the watches of a process go on at the restored etcd: that of the directory from the next revision it
// wants, those of clients from now on.
func (p *process) reconnect() {
	e := p.g.w.etcd
	p.next = len(e.events)
	p.told, p.arrived = p.next, p.next
	for _, a := range p.mine {
		a.next = min(a.next, p.next)
	}
	for p.dir = 0; p.dir < len(e.dir) && e.dir[p.dir].Rev <= p.dirRev; {
		p.dir++
	}
}

// isBehind reports whether etcd's revision has not passed one of a history that was lost. If the chain lost its revision
// object, gateways may not notice that, and keys cannot be placed where objects of higher instances are left.
func (w *world) isBehind() bool {
	return slices.ContainsFunc(w.lost, func(l lost) bool { return l.etcd.rev >= w.etcd.rev })
}

// epoch counts the restores.
func (w *world) epoch() int { return len(w.lost) }

// during returns the history that an answer shows: one of those since the request began, the first that it is exact in.
func (x *expectation) during(r *core.Reply) int {
	for i := x.epoch; i < x.w.epoch(); i++ {
		h := &x.w.lost[i]
		is, floor := h.etcd.at(x.key, r.Rev), x.floor
		if i > x.epoch {
			floor = 0
		}
		if (r.Rev >= floor || x.old) && r.Rev <= h.etcd.rev && (x.header || shows(r, is)) {
			return i
		}
	}
	return x.w.epoch()
}

// shows reports whether a reply shows a key as it is.
func shows(r *core.Reply, is state) bool {
	e := &r.Entry
	if is.exists != (e.State == core.Value) {
		return false
	}
	return !is.exists || e.Value == is.kv.Value && e.Rev == is.kv.Mod && e.Create == is.kv.Create && e.Version == is.kv.Version
}

// sameHistory reports whether etcd has the history of a process's objects. Otherwise the process begins anew.
func (p *process) sameHistory(s *core.Seen) bool {
	w, h := p.g.w, p.history()
	verdict := h.Compare(s)
	if verdict != core.Same {
		w.note("%s compares %+v with its timeline %q: %d", p, s, p.timeline, verdict)
	}
	switch verdict {
	case core.Same:
		if g := p.g; g.blindFor > 0 {
			g.blind, g.blindFor = w.Now+g.blindFor, 0
		}
		return true
	case core.Older:
		w.result.Timelines++
		name := fmt.Sprint("timeline ", w.result.Timelines)
		question(w, p, func() bool { w.etcd.beginTimeline(p.timeline, name); return true }, func(bool) { p.restart() })
		w.After(etcdTimeout, func() { w.enter(p, p.restart) })
	default:
		p.restart()
	}
	return false
}

func (p *process) history() *core.History {
	return &core.History{Timeline: p.timeline, Without: p.g.w.Without}
}

func (p *process) restart() {
	p.g.stop()
	p.g.boot()
}

// hasTimelines reports whether etcd's history may get another timeline.
func (w *world) hasTimelines() bool { return w.Restores || w.Entries }

// beginTimeline names a timeline that follows another, unless somebody did.
func (e *etcd) beginTimeline(after, name string) {
	if e.keys[timelineKey].Value != after {
		return
	}
	rev := e.rev + 1
	e.put(rev, timelineKey, name, false)
	e.next()
	e.w.note("%s begins at %d", name, e.rev)
	e.w.changed()
}

// timelines are the objects of each timeline of etcd's history in a shard.
type timelines map[string]*Shard

func (s *shard) of(timeline string) *Shard {
	if s.timelines[timeline] == nil {
		s.timelines[timeline] = NewShard(s.epoch, 64, s.without)
	}
	return s.timelines[timeline]
}
