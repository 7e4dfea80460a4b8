package gatewaysim

import (
	"errors"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// end ends the cache of a process: what is under way passes it by. asked is when the request was sent that etcd refused.
func (p *process) end(asked uint64) {
	w := p.g.w
	if p.ended {
		return
	}
	w.note("%s caches nothing any more", p)
	p.auth.End(int64(w.Now), int64(asked), p.core.Free())
	p.ended = true
	p.until = 0
	for _, id := range sortedKeys(p.g.asked) {
		switch r := p.passed[id]; {
		case p.flying[id], !p.g.asked[id].begun:
		case r != nil:
			p.show(id, r)
		default:
			p.pass(id)
		}
	}
	p.showEvents()
	p.awaitOpen()
}

// passes reports whether calls and answers pass now. If not, it has the process do something again later.
func (p *process) passes(again func()) bool {
	w := p.g.w
	yes, wait := p.auth.Passes(int64(w.Now))
	if !yes {
		w.After(min(uint64(wait), askAgain), func() { w.enter(p, again) })
	}
	return yes
}

// awaitOpen asks whether etcd answers everybody. Then the gateway begins anew.
func (p *process) awaitOpen() {
	w := p.g.w
	asked := w.Now
	question(w, p, w.etcd.authStatus, func(k known) {
		if k.refused {
			p.auth.Refused(int64(w.Now), int64(asked))
			return
		}
		w.note("%s begins anew", p)
		p.g.stop()
		p.g.boot()
	})
	w.After(askOpen, func() { w.enter(p, p.awaitOpen) })
}

// pass has etcd execute a client's call as it is.
func (p *process) pass(id uint64) {
	w, x := p.g.w, p.g.asked[id]
	if x == nil || !p.passes(func() { p.pass(id) }) {
		return
	}
	sent := w.Now
	p.flying[id] = true
	do := func() *core.Result {
		if w.Now >= sent+unguardedWithin {
			return &core.Result{Unknown: true}
		}
		r := x.direct()
		w.note("etcd executes %s, which passed: %s", x.name, describe(r))
		if x.txn != nil && r.Err == nil {
			w.result.Unguarded++
		}
		return r
	}
	take := func(r *core.Result) {
		delete(p.flying, id)
		p.show(id, r)
	}
	slow := uint64(0)
	if w.rng.IntN(4) == 0 { // the call waits for a connection
		slow = w.rng.Uint64N(unguardedWithin)
	}
	w.After(slow, func() { w.sendEtcd(p, do, take) })
}

// show answers a call that passed.
func (p *process) show(id uint64, r *core.Result) {
	if p.g.asked[id] != nil && (r.Unknown || r.Err != nil || p.passes(func() { p.show(id, r) })) {
		p.answer(id, r)
	}
}

// answer answers a call with what etcd says.
func (p *process) answer(id uint64, r *core.Result) {
	switch {
	case r.Unknown:
		p.g.w.reply(p, &core.Reply{ID: id, Failure: core.Unknown})
	case r.Err != nil:
		p.g.w.reply(p, &core.Reply{ID: id, Failure: core.NotApplied, Err: r.Err})
	default:
		p.passed[id] = r
		p.g.w.reveal(p, id)
	}
}

// returned takes the result of a request of the core. What the core asked before the end of the cache concerns clients' writes only.
func (p *process) returned(c *core.EtcdCall, r *core.Result) {
	w, t := p.g.w, c.Request.Txn
	switch {
	case t == nil && r.Err != nil: // it is repeated
		w.After(askAgain, func() { w.enter(p, func() { p.returned(c, &core.Result{Unknown: true}) }) })
		return
	case t != nil && c.Request.Part != core.Outcome:
		id := p.writes[t.ID]
		delete(p.flying, id)
		if p.ended {
			p.cutOff(id, r)
			return
		}
		if r.Err == nil && !r.Unknown && r.Held {
			p.passed[id] = r
		}
	}
	if !p.ended {
		p.core.Returned(c.ID, r)
	}
}

// cutOff ends a write that was under way when the cache ended.
func (p *process) cutOff(id uint64, r *core.Result) {
	if r.TooMany || errors.Is(r.Err, errDenied) || r.Err == nil && !r.Unknown && !r.Held {
		p.pass(id)
	} else {
		p.show(id, r)
	}
}

// judge handles a write that etcd refused to its user: if etcd refuses requests without a token, the guard was refused.
func (p *process) judge(refused *core.Reply) {
	w, answered := p.g.w, false
	asked := w.Now
	decide := func(k known) {
		switch {
		case answered || p.ended:
		case k.refused:
			p.end(asked)
		default:
			w.answer(p, refused)
		}
		answered = true
	}
	question(w, p, w.etcd.authStatus, decide)
	w.After(etcdTimeout, func() { w.enter(p, func() { decide(known{}) }) })
}

// showEvents delivers the events that arrived for a watch, as soon as they may be shown.
func (p *process) showEvents() {
	if p.told < p.arrived && p.passes(p.showEvents) {
		p.g.w.deliver(p, p.arrived, p.arrivedRev)
	}
}
