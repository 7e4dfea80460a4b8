package gatewaysim

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

const (
	// stillRefused is how long a refusal counts.
	stillRefused = 30 * ms
	// unguardedWithin is when etcd does not execute a call any more that passes by a cache that ended.
	unguardedWithin = 30 * ms
	// quiet is longer than both together.
	quiet = 65 * ms
	// askAgain is how often a gateway asks etcd again what it has to know.
	askAgain = 5 * ms
	// askOpen is how often one whose cache ended asks whether etcd answers everybody.
	askOpen = 20 * ms
	// authKey has the authentication revision that a gateway noted.
	authKey = ownPrefix + "auth"
	// ownEnd is the first key behind those of the gateways.
	ownEnd = "gateways0"
)

// Who sends a request.
type identity uint8

const (
	nobody identity = iota // without a token
	user                   // may read and write all keys but the gateways' own
	root
)

var (
	errNobody = errors.New("the user name is empty")
	errDenied = errors.New("permission denied")
)

// authentication is that of etcd.
type authentication struct {
	on       bool
	revision uint64 // changes when it is disabled, and with users and roles
}

// refuses returns etcd's refusal of a request.
func (e *etcd) refuses(who identity, r *core.Request) error {
	switch {
	case !e.auth.on || who == root:
		return nil
	case who == nobody:
		return errNobody
	}
	for i := range r.If {
		if strings.HasPrefix(r.If[i].Key, ownPrefix) {
			return errDenied
		}
	}
	if t := r.Txn; t != nil {
		for _, s := range t.Spans {
			if s.Has(ownPrefix) {
				return errDenied
			}
		}
	}
	return nil
}

// doAs executes a request if etcd does not refuse it.
func (e *etcd) doAs(who identity, lease string, r *core.Request) *core.Result {
	if err := e.refuses(who, r); err != nil {
		return &core.Result{Err: err}
	}
	return e.do(lease, r)
}

// disable switches authentication off, and changes its revision.
func (e *etcd) disable() {
	e.auth.on = false
	e.auth.revision++
	e.w.note("authentication is disabled; its revision is %d", e.auth.revision)
}

// nextAuth plans the next change of etcd's authentication.
func (w *world) nextAuth(rng *rand.Rand) {
	w.After(uint64(rng.ExpFloat64()*float64(5*w.Lease)), func() {
		switch {
		case w.calm:
			return
		case w.Quiet&(1<<Authentication) != 0:
		case rng.IntN(8) == 0: // a user or a role
			w.etcd.disable()
		default:
			w.result.Faults[Authentication]++
			w.etcd.auth.on = true
			w.note("authentication is enabled")
			lasts := rng.Uint64N(uint64(w.Lease))
			if rng.IntN(3) > 0 { // long enough that calls pass
				lasts = uint64(w.Lease) + 2*lasts + 10*ms
			}
			w.sever(rng, lasts)
			w.After(lasts, func() {
				w.etcd.disable()
				w.sever(rng, quiet+rng.Uint64N(2*uint64(w.Lease)))
				w.nextAuth(rng)
			})
			return
		}
		w.nextAuth(rng)
	})
}

// sever keeps a gateway, sometimes, from noticing a change of etcd's authentication.
func (w *world) sever(rng *rand.Rand, lasts uint64) {
	g, until := w.gateways[rng.IntN(len(w.gateways))], w.Now+lasts
	f := []Fault{Pause, CutEtcd, CutChain, CutEtcd, CutChain, Authentication}[rng.IntN(6)]
	if w.Quiet&(1<<f) != 0 || w.calm {
		return
	}
	w.result.Faults[f]++
	w.note("severed: %v, gateway %d, for %d us", f, g.number, lasts/1000)
	switch f {
	case Pause:
		g.paused = max(g.paused, until)
	case CutEtcd:
		g.cutEtcd = max(g.cutEtcd, until)
	case CutChain: // it proves nothing without the chain
		g.cutChain = max(g.cutChain, until)
	}
}

// who is the identity with which a client sends a request now: it has a token only while etcd gives them out.
func (c *client) who() identity {
	if !c.w.etcd.auth.on {
		return nobody
	}
	return []identity{nobody, user, nobody, root}[c.number%4]
}

// known is what etcd says of its authentication.
type known struct {
	refused         bool
	revision, noted uint64
	rev             int64
	timeline        string
}

func (e *etcd) authStatus() known {
	noted, _ := strconv.ParseUint(e.keys[authKey].Value, 10, 64)
	return known{e.auth.on, e.auth.revision, noted, e.rev, e.keys[timelineKey].Value}
}

// question has something happen at etcd, and takes the answer. Both may get lost.
func question[T any](w *world, p *process, at func() T, take func(T)) {
	if w.Now < p.g.cutEtcd {
		return
	}
	answered, epoch := false, w.epoch()
	w.carry(func() {
		if w.Now < w.etcd.away || answered || epoch < w.epoch() {
			return
		}
		a := at()
		if w.Now < p.g.cutEtcd {
			return
		}
		w.carry(func() {
			w.enter(p, func() {
				if !answered {
					answered = true
					take(a)
				}
			})
		})
	})
}

// identify asks until the gateway may begin its first session, or may not cache.
func (p *process) identify() {
	w := p.g.w
	if p.began || p.ended {
		return
	}
	again := func() { w.After(askAgain, func() { w.enter(p, p.identify) }) }
	if w.Now < p.g.unnamed {
		again()
		return
	}
	asked := w.Now
	question(w, p, w.etcd.authStatus, func(k known) {
		if p.began || p.ended {
			return
		}
		p.timeline = k.timeline
		switch verdict := p.auth.Begin(int64(w.Now), k.refused, k.revision, k.noted); verdict {
		case core.Over:
			p.end(asked)
		case core.Go:
			p.start()
		case core.Note:
			note := &core.Request{Put: []core.Put{{Key: authKey, Value: strconv.FormatUint(k.revision, 10)}}}
			question(w, p, func() *core.Result { return w.etcd.doAs(nobody, "", note) }, func(r *core.Result) {
				if r.Err == nil && !p.began && !p.ended {
					p.start()
				}
			})
		}
	})
	again()
}

func (p *process) start() {
	p.began = true
	p.core.Within(p.timeline)
	p.core.Start()
}

// prove extends the session if it may go on.
func (p *process) prove(lease string, sent uint64) {
	w := p.g.w
	last := func(seen *core.Seen) {
		if lease == p.tenured && lease != p.ending {
			p.tenure.Extend(int64(w.Now), int64(sent), int64(w.Lease), seen)
		}
	}
	extend := func() {
		if lease == p.core.Lease() && lease != p.ending && !p.over(lease) {
			p.until, p.lease = sent+uint64(w.Lease), lease
		}
	}
	if !w.Auth && !w.hasTimelines() {
		last(new(core.Seen))
		w.proveKeys(p, lease, extend)
		return
	}
	if w.Now < p.g.blind {
		return
	}
	if w.Now < p.g.cutChain && w.Auth { // etcd's revision is compared with the chain's
		return
	}
	asked, seen := w.Now, core.Seen{Floor: p.newest, Chain: w.near(p, &core.Op{Kind: core.ReadRevision})}
	question(w, p, func() known { w.pass(); return w.etcd.authStatus() }, func(k known) {
		if p.ended {
			return
		}
		if seen.Timeline, seen.Rev = k.timeline, k.rev; !k.refused {
			if !p.sameHistory(&seen) {
				return
			}
			p.newest = max(p.newest, k.rev)
			last(&seen)
		}
		switch p.auth.Prove(int64(w.Now), k.refused, k.revision) {
		case core.Over:
			p.end(asked)
		case core.Go:
			w.proveKeys(p, lease, extend)
		case core.Renew:
			p.until, p.ending = 0, p.core.Lease()
			p.renew(p.ending)
		}
	})
}

// renew revokes the lease of a session, until that is certain. Then another session begins.
func (p *process) renew(lease string) {
	w := p.g.w
	if p.ended || p.core.Lease() != lease {
		return
	}
	revoke := func() bool {
		if w.etcd.auth.on {
			return false
		}
		w.etcd.end(lease)
		return true
	}
	question(w, p, revoke, func(done bool) {
		if done && !p.ended {
			p.core.SessionLost(lease)
		}
	})
	w.After(askAgain, func() { w.enter(p, func() { p.renew(lease) }) })
}
