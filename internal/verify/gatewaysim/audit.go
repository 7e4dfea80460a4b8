package gatewaysim

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

const (
	// auditEvery is the least time between two comparisons of a key's changes with its object.
	auditEvery = 5 * ms
	// surveyEvery is how often a gateway looks at the others.
	surveyEvery = 20 * ms
)

// audited is a key that a process answers for and watches.
type audited struct {
	core.Audit
	key  string
	next int // index of the next change of etcd; -1: it is not watched yet
}

// change is a change of a client's key in etcd.
type change struct {
	key string
	rev int64
}

// planPast plans a write past the gateways, in some worlds: of a key that they read from the chain, and most often just after a
// gateway's write. Later writes of the key, and placements, would hide it.
func (w *world) planPast() {
	rng := rand.New(rand.NewPCG(w.Seed, 6))
	if w.plan != "" || rng.IntN(4) == 0 || w.Restores {
		return
	}
	for _, i := range rng.Perm(w.Keys) {
		w.plan = keyName(i)
		read := core.Op{Kind: core.ReadObject, Key: w.plan}
		if a := w.shardOf(&read).of("").Do(&read); a.Status == core.OK && a.Object.Readable() {
			break
		}
	}
	w.After(rng.Uint64N(20*ms), w.writePast)
}

// wrote has a write past the gateways follow one of a gateway's that etcd executed.
func (w *world) wrote(t *core.Txn) {
	if w.plan != "" && w.past == "" && slices.Contains(t.Keys(), w.plan) {
		w.After(w.rng.Uint64N(uint64(w.Latency)), w.writePast)
	}
}

func (w *world) writePast() {
	if w.past != "" {
		return
	}
	w.past = w.plan
	w.etcd.put(w.etcd.rev+1, w.past, "past the gateways", false)
	w.etcd.clients.attach(w.past, 0)
	w.etcd.next()
	w.note("%s is written past the gateways at %d", w.past, w.etcd.rev)
	w.changed()
	for _, g := range w.gateways {
		if p := g.process; p != nil && p.mine[w.past] != nil && w.Quiet&(1<<Crash) == 0 && w.rng.IntN(3) == 0 {
			g.crash() // another one has to notice
		}
	}
}

// writeBehind has a client of etcd write a key past the gateways that a process reads from the chain. The process is cut
// off from etcd, and another one notices the write: [world.hidePast] follows. It returns false if none would, or if a key
// was written already.
func (w *world) writeBehind(rng *rand.Rand, p *process, key string) bool {
	noticed := slices.ContainsFunc(w.gateways, func(g *gateway) bool {
		return g != p.g && g.process != nil && g.process.mine[key] != nil
	})
	if w.plan != "" || !noticed {
		return false
	}
	w.plan = key
	w.writePast()
	w.cutOff(rng, p.g)
	w.readOften(rng, p, key)
	return true
}

// hidePast has a client of etcd delete the directory's entry of the key that was written past the gateways, or all keys of
// the gateways, in some worlds, before the key is excluded.
func (w *world) hidePast() {
	kinds := [][]string{{""}, {core.DirectoryPrefix + w.past}}[w.rng.IntN(2)]
	if w.Entries && w.etcd.deleteOwn(kinds, "") {
		w.result.Vanished++
		w.note("a client of etcd deletes %v", kinds)
	}
}

// mayBeStale reports whether a hit may be older than the key in etcd: it was written past the gateways, not all faults have
// ended since for long, and the key was not allowed to be placed again before the request began.
func (w *world) mayBeStale(x *expectation) bool {
	return x.hit && x.key == w.past && !w.settled && !x.allowed
}

// adopt begins to watch a key.
func (p *process) adopt(key string) {
	if p.mine[key] == nil {
		a := &audited{Audit: core.Audit{Every: int64(auditEvery)}, key: key, next: -1}
		p.mine[key] = a
		p.watch(a)
	}
}

// watch looks at a key as it is, until etcd answers, and then at its changes from there on.
func (p *process) watch(a *audited) {
	w := p.g.w
	if p.mine[a.key] != a || a.next >= 0 || p.ended {
		return
	}
	type look struct {
		rev  int64
		next int
	}
	question(w, p, func() look { return look{w.etcd.keys[a.key].Mod, len(w.etcd.events)} }, func(l look) {
		a.next = l.next
		if l.rev != 0 {
			p.changed(a, l.rev)
		}
		p.follow(a)
	})
	w.After(askAgain, func() { w.enter(p, func() { p.watch(a) }) })
}

// follow takes the changes that have arrived.
func (p *process) follow(a *audited) {
	for ; a.next >= 0 && a.next < p.arrived && !p.ended; a.next++ {
		if c := p.g.w.etcd.events[a.next]; c.key == a.key {
			p.changed(a, c.rev)
		}
	}
}

func (p *process) changed(a *audited, rev int64) {
	if a.Changed(int64(p.g.w.Now), rev) {
		p.compare(a)
	}
}

// compare compares the newest change of a key with its object.
func (p *process) compare(a *audited) {
	rev := a.Begin(int64(p.g.w.Now))
	if rev == 0 {
		return
	}
	p.ask(&core.Op{Kind: core.ReadObject, Key: a.key}, func(object core.Answer) {
		if p.mine[a.key] == a && p.core.Compare(&a.Audit, a.key, rev, &object) {
			p.bypassed(a, rev)
		}
	})
}

// bypassed takes a key out of the chain that was written past the gateways.
func (p *process) bypassed(a *audited, rev int64) {
	w := p.g.w
	if w.past != a.key {
		w.broken("audit: %s takes the change of %s at %d for one past the gateways", p, a.key, rev)
		return
	}
	w.result.Noticed++
	w.note("%s notices that %s was written past the gateways", p, a.key)
	if !w.excludes(a.key) {
		w.hidePast()
		w.etcd.put(w.etcd.rev+1, exclusions+a.key, "", false)
		w.etcd.next()
		w.changed()
		w.nextAllow()
	}
	p.remove(a.key)
}

// excludes reports whether a key must not be placed.
func (w *world) excludes(key string) bool {
	_, is := w.etcd.keys[exclusions+key]
	return is
}

func (p *process) remove(key string) {
	p.placing[key]++
	p.g.w.result.Rounds++
	p.core.Unplace(key)
}

// audit compares what is due, and removes again what is excluded.
func (p *process) audit() {
	for _, key := range sortedKeys(p.mine) {
		p.compare(p.mine[key])
		if p.g.w.excludes(key) && p.placing[key] == 0 {
			p.remove(key)
		}
	}
}

// placed takes what came of a placement or removal.
func (p *process) placed(e *core.Placed) {
	p.placing[e.Key]--
	switch {
	case e.Err != nil:
	case e.Gone:
		delete(p.mine, e.Key)
	default:
		p.g.w.result.Placed++
		p.adopt(e.Key)
	}
}

// survey looks at the other gateways now and then: it takes over keys of those that are gone, and leaves keys to others that placed
// them anew.
func (p *process) survey() {
	w := p.g.w
	if p.ended {
		return
	}
	question(w, p, w.etcd.survey, func(s *core.Survey) {
		for _, key := range sortedKeys(s.Directory) {
			if p.core.Owns(s, key) && !p.ended {
				p.adopt(key)
			}
		}
		for key := range p.mine {
			if !p.core.Owns(s, key) && p.placing[key] == 0 {
				delete(p.mine, key)
			}
		}
	})
	w.After(surveyEvery, func() { w.enter(p, p.survey) })
}

func (e *etcd) survey() *core.Survey {
	s := &core.Survey{Sessions: make(map[string]bool), Directory: make(map[string]string)}
	for key, kv := range e.keys {
		if session, is := strings.CutPrefix(key, ownPrefix+core.SessionPrefix); is {
			s.Sessions[session] = true
		} else if placed, is := strings.CutPrefix(key, ownPrefix+core.DirectoryPrefix); is {
			s.Directory[placed] = core.Owner(kv.Value)
		}
	}
	return s
}
