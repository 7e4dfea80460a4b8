package gatewaysim

import (
	"math/rand/v2"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

const exclusions = ownPrefix + core.ExclusionPrefix

// nextLeave plans, in some worlds, that all gateways end and leave nothing in etcd. Clients write to etcd directly then,
// and the gateways come back. Before that an operator tries the same, by mistake, while gateways run.
func (w *world) nextLeave(rng *rand.Rand) {
	w.After(uint64(rng.ExpFloat64()*float64(6*w.Lease)), func() {
		w.cleanByMistake(rng, w.Now+2*uint64(w.Lease), func() { w.leave(rng) })
	})
}

// cleanByMistake tries to clean as soon as a gateway reads a key from the chain, which is cut off from etcd then and goes
// on to read. It does not wait for that for long.
func (w *world) cleanByMistake(rng *rand.Rand, until uint64, then func()) {
	if w.calm || w.left {
		return
	}
	p, key := w.anyReader(rng)
	if p == nil && w.Now < until {
		w.After(ms, func() { w.cleanByMistake(rng, until, then) })
		return
	}
	if p != nil {
		w.cutOff(rng, p.g)
		w.readOften(rng, p, key)
	}
	w.clean(rng)
	then()
}

func (w *world) leave(rng *rand.Rand) {
	if w.left = rng.IntN(2) == 0; !w.left {
		w.nextLeave(rng)
		return
	}
	w.note("all gateways end")
	w.stopAll()
	w.awaitClean(rng)
}

// awaitClean cleans as soon as no session is left, and has the gateways come back then.
func (w *world) awaitClean(rng *rand.Rand) {
	w.After(rng.Uint64N(20*ms), func() {
		if !w.calm && !w.clean(rng) {
			w.awaitClean(rng)
			return
		}
		w.comeBack()
		w.nextLeave(rng)
	})
}

func (w *world) comeBack() {
	if w.left {
		w.left = false
		w.bootAll()
	}
}

// stopAll ends all gateways.
func (w *world) stopAll() {
	for _, g := range w.gateways {
		if g.process != nil {
			g.stop()
		}
	}
}

// bootAll starts all gateways that do not run, unless they are to stay away.
func (w *world) bootAll() {
	for _, g := range w.gateways {
		if g.process == nil && !w.left {
			g.boot()
		}
	}
}

// clean tries to delete the gateways' own keys. If that succeeds, clients write to etcd directly.
func (w *world) clean(rng *rand.Rand) bool {
	if r := core.Clean(ownPrefix, w.Without); !w.operate(&r).Held {
		return false
	}
	w.allowed = w.past != ""
	w.result.Cleaned++
	w.note("the gateways' own keys are deleted at %d", w.etcd.rev)
	for range 1 + rng.IntN(4) {
		w.etcd.put(w.etcd.rev+1, keyName(rng.IntN(w.Keys)), "directly", false)
		w.etcd.next()
	}
	w.changed()
	return true
}

// operate executes an operator's request.
func (w *world) operate(r *core.Request) *core.Result {
	if w.Now < w.etcd.away {
		return &core.Result{Unknown: true}
	}
	writes := w.result.OwnWrites
	result := w.etcd.do("", r)
	w.result.OwnWrites = writes
	return result
}

// nextAllow plans that an operator ends the exclusion of the key that was written past the gateways, and reads it then.
func (w *world) nextAllow() {
	w.After(w.rng.Uint64N(2*ms), func() {
		if !w.settled && w.excludes(w.past) {
			w.allow(core.Allow(ownPrefix, []string{w.past}, w.Without))
		}
	})
}

// allow executes the requests of an operator, until the exclusion has ended.
func (w *world) allow(a *core.Allowance) {
	r, more := a.Next()
	switch {
	case more:
		w.After(w.delay(), func() {
			a.Took(w.operate(&r))
			w.allow(a)
		})
	case len(a.Allowed) == 0:
		w.nextAllow()
	default:
		w.allowed = true
		w.result.Allowed++
		w.note("%s may be placed again, from %d on", w.past, w.etcd.rev)
		for _, g := range w.gateways {
			if g.process != nil {
				w.lastRead(g, w.past, 0)
			}
		}
	}
}
