package gatewaysim

import (
	"errors"
	"fmt"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// gateway is a machine on which a gateway's process runs, or not.
type gateway struct {
	w                 *world
	number, starts    int
	process           *process // nil: it crashed
	paused            uint64   // until when nothing happens
	cutEtcd, cutChain uint64
	unnamed           uint64 // until when it does not know the name of its chain, so that no process begins a session
	blind, blindFor   uint64 // until when it does not learn what it asks etcd before its session counts as extended; for how long after the next time
	asked             map[uint64]*expectation
	last              uint64 // number of the last request
}

// process is one life of a gateway's program.
type process struct {
	core     *core.Gateway
	g        *gateway
	name     string
	dead     bool
	stream   uint64 // when the last batch of the watch arrives, so that batches keep their order
	next     int    // index of the next event for the watch
	told     int    // the last event that was delivered
	dir      int    // index of the next change of the directory
	dirRev   int64  // up to which the directory was handed over
	inbox    []func()
	passed   map[uint64]*core.Result // answers of etcd that wait until they may be revealed
	revealed map[uint64]func()       // what waits until it may be revealed
	watches  int                     // streams of the directory, so that an old one ends
	watching bool
	calls    map[uint64]uint64 // of the chain that clients wait for, and since when
	lease    string            // that was extended last
	until    uint64            // it lasts until then at least
	tenure   core.Tenure       // of the newest lease
	tenured  string            // the newest lease
	looked   uint64            // when a look at the directory counts no more
	timeline string            // of etcd's history
	newest   int64             // revision that etcd had
	ending   string            // lease that is being revoked
	bitless  uint64            // its bit is deleted during its next write, which takes so long; 0: it is not

	reads      reads
	mine       map[string]*audited // keys that it answers for
	placing    map[string]int      // changes of keys' places that are under way
	auth       *core.Authentication
	ended      bool              // the cache
	began      bool              // the first session
	flying     map[uint64]bool   // calls of clients that etcd executes, or has answered on the way
	writes     map[uint64]uint64 // calls by their transactions
	arrived    int               // the last event that arrived
	arrivedRev int64
	showing    bool // events wait until they may be shown
}

func (p *process) String() string { return p.name }

// ownPrefix begins the gateways' own keys. It is not empty, so that a name without it is noticed.
const ownPrefix = "gateways/"

func (g *gateway) boot() {
	g.starts++
	name := fmt.Sprintf("g%d.%d", g.number, g.starts)
	p := &process{
		g: g, name: name, passed: make(map[uint64]*core.Result), flying: make(map[uint64]bool), writes: make(map[uint64]uint64),
		calls: make(map[uint64]uint64), revealed: make(map[uint64]func()),
		mine: make(map[string]*audited), placing: make(map[string]int),
	}
	p.auth = core.NewAuthentication(core.AuthOptions{
		Lease: int64(g.w.Lease), Counts: int64(stillRefused), Quiet: int64(quiet), Without: g.w.Without,
	})
	p.core = core.New(core.Options{Name: name, Prefix: ownPrefix, Without: g.w.Without, Alive: p.alive, Lasts: p.lasts, Recent: p.recent})
	p.next = len(g.w.etcd.events)
	p.told, p.arrived = p.next, p.next
	g.process, g.asked = p, make(map[uint64]*expectation)
	g.w.note("%s starts", p)
	if g.w.Auth || g.w.hasTimelines() {
		g.w.enter(p, p.identify)
	} else {
		g.w.enter(p, p.start)
	}
	g.keepAlive(p)
	g.w.enter(p, p.survey)
}

// tick runs the periodic work of the current process, if there is one.
func (g *gateway) tick() {
	g.w.After(tick, func() {
		if p := g.process; p != nil && !p.ended {
			g.w.enter(p, func() {
				if p.ended {
					return
				}
				p.core.Tick()
				p.attach()
				p.audit()
			})
		}
		g.tick()
	})
}

func (g *gateway) keepAlive(p *process) {
	w := g.w
	pause := uint64(w.Lease) / 4
	if p.lease != p.core.Lease() { // it is not known to last yet
		pause /= 8
	}
	w.After(pause, func() {
		if p.dead {
			return
		}
		lease, sent := p.core.Lease(), w.Now
		if p.over(lease) && w.Now >= g.paused && !p.ended {
			p.lapse(lease)
		}
		if w.Now >= g.cutEtcd && w.Now >= g.paused && lease != "" && lease != p.ending && !p.ended {
			w.carry(func() {
				if w.Now < w.etcd.away {
					return
				}
				if w.etcd.doomed[lease] && !w.etcd.dead[lease] {
					return
				}
				extended := w.etcd.extend(lease)
				w.carry(func() {
					w.enter(p, func() {
						switch {
						case p.ended:
						case lease != p.core.Lease(): // a gateway also compares etcd's history before each session begins
							p.prove(lease, sent)
						case !extended:
							p.core.SessionLost(lease)
						case !p.over(lease):
							p.prove(lease, sent)
						}
					})
				})
			})
		}
		g.keepAlive(p)
	})
}

// attach leaves the chain if it does not answer for long, and rests if nothing is placed.
func (p *process) attach() {
	w := p.g.w
	for _, since := range p.calls {
		if w.Now-since >= patience {
			w.result.Detached++
			p.core.Detach()
			break
		}
	}
	p.core.Rest()
}

// begin begins the tenure of a lease that is used for the first time.
func (p *process) begin(lease string) {
	if lease != "" && lease == p.core.Lease() && lease != p.tenured {
		p.tenured, p.tenure = lease, core.Tenure{Without: p.g.w.Without}
		p.tenure.Begin(int64(p.g.w.Now), int64(p.g.w.Lease))
	}
}

// over reports whether the session of a lease is to be given up.
func (p *process) over(lease string) bool {
	return lease == p.tenured && p.tenure.Over(int64(p.g.w.Now))
}

// lapse gives up a session that was not extended in time.
func (p *process) lapse(lease string) {
	if p.ending != lease {
		p.g.w.note("%s gives up its session", p)
		p.until, p.ending = 0, lease
		p.renew(lease)
	}
}

func (p *process) lasts() bool {
	return p.tenured == p.core.Lease() && p.tenure.Lasts(int64(p.g.w.Now))
}

// recent reports whether the last look at the directory counts.
func (p *process) recent() bool { return p.g.w.Now < p.looked }

// looks takes what a member of etcd had when it was asked.
func (p *process) looks(asked uint64, rev int64, unplaced, same bool) {
	p.core.Looked(rev, unplaced, same)
	p.looked = max(p.looked, asked+uint64(p.g.w.Lease))
}

// alive reports whether the session's lease lasts for certain: since it was extended last, as the process knows.
func (p *process) alive() bool { return p.g.w.Now < p.until && p.core.Lease() == p.lease }

func (g *gateway) crash() {
	p := g.process
	if p == nil {
		return
	}
	w := g.w
	w.result.Faults[Crash]++
	w.note("%s crashes", p)
	g.stop()
	w.After(w.rng.Uint64N(200*ms), func() {
		if g.process == nil && !w.left {
			g.boot()
		}
	})
}

// stop ends the process. Its clients do not know what became of their calls.
func (g *gateway) stop() {
	g.process.dead, g.process = true, nil
	asked := g.asked
	g.asked = nil
	for _, id := range sortedKeys(asked) {
		asked[id].gone()
	}
}

// enter runs do on a process as soon as the process is not paused, and performs its effects.
func (w *world) enter(p *process, do func()) {
	g := p.g
	switch {
	case p.dead || w.result.Broken != "":
		return
	case w.Now < g.paused || len(p.inbox) > 0: // waiting work keeps its order
		if p.inbox = append(p.inbox, do); len(p.inbox) == 1 {
			p.wake()
		}
		return
	}
	w.run(p, do)
}

// wake handles the inbox that filled during a pause.
func (p *process) wake() {
	w := p.g.w
	w.After(max(p.g.paused, w.Now)-w.Now, func() {
		if w.Now < p.g.paused {
			p.wake()
			return
		}
		inbox := p.inbox
		p.inbox = nil
		for _, do := range inbox {
			if !p.dead {
				w.run(p, do)
			}
		}
	})
}

func (w *world) run(p *process, do func()) {
	g := p.g
	do()
	for effects := p.core.Effects(); len(effects) > 0; effects = p.core.Effects() {
		for _, e := range effects {
			if p.dead {
				return
			}
			if w.happens(Crash, w.Stop) {
				g.crash()
				return
			}
			w.perform(p, e)
		}
	}
	if err := p.core.CheckInvariants(); err != nil {
		w.broken("invariant: %s: %v", p, err)
	}
}

func (w *world) perform(p *process, e core.Effect) {
	g := p.g
	switch e := e.(type) {
	case core.ChainCall:
		w.callChain(p, e)
	case core.EtcdCall:
		w.callEtcd(p, e)
	case core.EndLease:
		p.watches++
		p.watching = false
		if w.Deletes { // elsewhere sessions are over only when their leases are
			w.carry(func() { w.etcd.revoke(e.Lease) })
		}
	case core.WatchDirectory:
		p.watches++
		p.watching = true
		p.dir, p.dirRev = 0, e.From-1
		for p.dir < len(w.etcd.dir) && w.etcd.dir[p.dir].Rev < e.From {
			p.dir++
		}
		w.sendDirectory(p)
	case core.Reply:
		w.reply(p, &e)
	case core.Revealed:
		p.shown(e.ID)
	case core.Placed:
		p.placed(&e)
		w.note("%s placed %s: %v", p, e.Key, e.Err)
		switch {
		case !w.calm:
		case errors.Is(e.Err, core.ErrChain): // one late answer is enough
			w.After(ms, func() { g.place(true, e.Key) })
		case errors.Is(e.Err, core.ErrLeft):
			w.After(uint64(core.TryAgain), func() { g.place(true, e.Key) })
			w.again = true
		}
	}
}

// reply gives a client its answer, unless etcd refused the guard.
func (w *world) reply(p *process, r *core.Reply) {
	if errors.Is(r.Err, errDenied) && !p.ended {
		p.judge(r)
		return
	}
	w.answer(p, r)
}

func (w *world) answer(p *process, r *core.Reply) {
	delete(p.passed, r.ID)
	if x := p.g.asked[r.ID]; x != nil {
		delete(p.g.asked, r.ID)
		x.answered(r)
	}
}

// changed sends watch events and changes of the directory to every gateway, late, in order.
func (w *world) changed() {
	for _, g := range w.gateways {
		if p := g.process; p != nil {
			w.sendEvents(p)
			w.sendDirectory(p)
		}
	}
}

// arrival is when a batch arrives on a process's stream, not before the batch in front of it.
func (w *world) arrival(p *process) uint64 {
	at := w.Now + w.delay()
	if !w.calm {
		at += uint64(w.rng.ExpFloat64() * float64(w.Lag))
	}
	if w.Now < p.g.cutEtcd {
		at = p.g.cutEtcd + w.delay()
	}
	p.stream = max(p.stream+1, at)
	return p.stream - w.Now
}

func (w *world) sendEvents(p *process) {
	if p.next == len(w.etcd.events) {
		return
	}
	p.next = len(w.etcd.events)
	rev, last, epoch := w.etcd.rev, p.next, w.epoch()
	w.After(w.arrival(p), func() {
		if epoch < w.epoch() {
			return
		}
		w.enter(p, func() {
			if epoch < w.epoch() { // the clients' watches go on at the restored etcd
				return
			}
			if p.arrived, p.arrivedRev = last, rev; p.ended {
				p.showEvents()
			} else {
				p.revealEvents()
			}
			for _, key := range sortedKeys(p.mine) {
				p.follow(p.mine[key])
			}
		})
	})
}

func (w *world) sendDirectory(p *process) {
	if !p.watching || w.etcd.rev <= p.dirRev {
		return
	}
	changes := w.etcd.dir[p.dir:]
	if len(changes) == 0 {
		return
	}
	p.dir, p.dirRev = len(w.etcd.dir), w.etcd.rev
	rev, stream, epoch := w.etcd.rev, p.watches, w.epoch()
	w.After(w.arrival(p), func() {
		if epoch < w.epoch() {
			return
		}
		w.enter(p, func() {
			if p.watches == stream && !p.ended {
				p.core.DirectoryChanged(rev, changes)
			}
		})
	})
}

// revealEvents shows what has arrived of the stream of a watch, a message after the other.
func (p *process) revealEvents() {
	if p.showing || p.told == p.arrived {
		return
	}
	p.showing = true
	events, rev, epoch := p.arrived, p.arrivedRev, p.g.w.epoch()
	p.reveal(core.Events, rev, func() {
		if p.showing = false; epoch == p.g.w.epoch() {
			p.g.w.deliver(p, events, rev)
		}
		p.revealEvents()
	})
}

// deliver shows a watch the events up to an index, at a revision.
func (w *world) deliver(p *process, events int, rev int64) {
	w.result.Delivered += events - p.told
	p.told = events
	w.note("%s delivers events up to %d", p, rev)
	if rev > w.etcd.rev {
		w.broken("header: a watch at %s is at revision %d, and etcd at %d", p, rev, w.etcd.rev)
	}
	w.revealed = max(w.revealed, rev)
}

func (g *gateway) place(in bool, keys ...string) {
	p := g.process
	if p == nil || len(keys) == 0 {
		return
	}
	g.w.note("%s is asked to place %s: %v", p, keys, in)
	g.w.result.Rounds++
	g.w.enter(p, func() {
		for _, key := range keys {
			p.placing[key]++
		}
		if in {
			p.core.Place(keys...)
		} else {
			p.core.Unplace(keys...)
		}
	})
}
