package gatewaysim

import (
	"github.com/netcraq/netcraq/internal/gateway/core"
)

const (
	ms = uint64(1e6)
	// maxDelay is the longest delay of a message.
	maxDelay = 150 * ms
	// etcdTimeout is when a gateway gives up an etcd request, whose outcome is then unknown.
	etcdTimeout = 25 * ms
	// readTimeout is when a read of the chain counts as not answered.
	readTimeout = 8 * ms
	// repeatAfter is when other operations on the chain are sent again.
	repeatAfter = 5 * ms
	// patience is how long a call of the chain may take before a gateway tries to do without the chain.
	patience = 40 * ms
)

// happens draws a fault of the network.
func (w *world) happens(f Fault, p float64) bool {
	if w.calm || w.Quiet&(1<<f) != 0 || p == 0 || w.rng.Float64() >= p {
		return false
	}
	w.result.Faults[f]++
	return true
}

func (w *world) delay() uint64 {
	d := uint64(w.Latency) + uint64(w.rng.ExpFloat64()*float64(w.Jitter))
	if w.happens(LateMessage, w.Late) {
		d += w.rng.Uint64N(maxDelay)
	}
	return d
}

// carry delivers a message once, more often or never.
func (w *world) carry(deliver func()) {
	if w.happens(Lost, w.Loss) {
		return
	}
	w.After(w.delay(), deliver)
	if w.happens(Repeated, w.Duplicate) {
		w.After(w.delay(), deliver)
	}
}

// callEtcd sends a request of the core.
func (w *world) callEtcd(p *process, c core.EtcdCall) {
	w.note("%s asks etcd %d: %s", p, c.ID, describeRequest(&c.Request))
	who := nobody
	p.begin(c.Lease)
	if c.Request.Txn == nil && p.over(c.Lease) {
		w.After(askAgain, func() { w.enter(p, func() { p.returned(&c, &core.Result{Unknown: true}) }) })
		return
	}
	if t := c.Request.Txn; t != nil {
		who = w.identities[t.ID]
		p.flying[p.writes[t.ID]] = c.Request.Part != core.Outcome
	}
	execute := func() *core.Result {
		w.meet(p, c.Lease, &c.Request)
		r := w.etcd.doAs(who, c.Lease, &c.Request)
		w.note("etcd executes %d of %s: %s", c.ID, p, describe(r))
		if t := c.Request.Txn; t != nil && r.Held && c.Request.Part != core.Outcome {
			w.wrote(t)
		}
		return r
	}
	epoch := w.epoch()
	do := func() *core.Result {
		if c.Request.Txn == nil && epoch < w.epoch() { // the gateway gave it up before etcd was restored
			return &core.Result{Unknown: true}
		}
		return execute()
	}
	send := func() {
		w.sendEtcd(p, do, func(r *core.Result) {
			w.note("%s: etcd answers %d: %s", p, c.ID, describe(r))
			p.returned(&c, r)
		})
	}
	if slow := w.deleteBit(p, &c); slow > 0 {
		w.After(slow, send)
	} else {
		send()
	}
}

// sendEtcd sends a request over a stream: it is executed once or not at all, perhaps late, and its answer may get lost.
func (w *world) sendEtcd(p *process, do func() *core.Result, take func(*core.Result)) {
	g, answered := p.g, false
	answer := func(r *core.Result) {
		w.enter(p, func() {
			if !answered {
				answered, p.newest = true, max(p.newest, r.Rev)
				take(r)
			}
		})
	}
	w.After(etcdTimeout, func() {
		if !answered {
			answer(&core.Result{Unknown: true})
		}
	})
	if w.Now < g.cutEtcd || w.happens(Lost, w.Loss) {
		return
	}
	var execute func()
	execute = func() {
		if w.Now < w.etcd.away {
			w.After(w.etcd.away-w.Now+w.delay(), execute)
			return
		}
		r := do()
		if w.Now < g.cutEtcd || w.happens(Lost, w.Loss) {
			return
		}
		w.After(w.delay(), func() { answer(r) })
	}
	w.After(w.delay(), execute)
}

// shard is one shard of the chain. It executes an operation once while it keeps its state, however often that arrives.
type shard struct {
	epoch     uint64
	without   core.Rule
	timelines timelines
	done      map[session]core.Answer
	away      uint64
}

// session identifies an operation of a process.
type session struct {
	process string
	id      uint64
}

func (w *world) shardOf(op *core.Op) *shard {
	if op.Kind == core.ReadRevision || op.Kind == core.Max {
		return w.shards[0]
	}
	return w.shards[int(op.Key[len(op.Key)-1])%len(w.shards)]
}

func (w *world) newShard() *shard {
	w.epochs++
	return &shard{epoch: w.epochs, without: w.Without, timelines: make(timelines), done: make(map[session]core.Answer)}
}

// callChain sends an operation of the core.
func (w *world) callChain(p *process, c core.ChainCall) {
	if c.Op.Kind == core.Max || c.Op.Kind == core.SetBit {
		p.calls[c.ID] = w.Now
	}
	w.sendChain(p, session{p.name, c.ID}, &c.Op, func(a core.Answer) {
		delete(p.calls, c.ID)
		p.core.Answered(c.ID, a)
	})
}

// sendChain sends an operation, again and again if it changes something.
func (w *world) sendChain(p *process, call session, op *core.Op, take func(core.Answer)) {
	g, answered := p.g, false
	answer := func(a core.Answer) {
		w.enter(p, func() {
			if !answered && !p.ended {
				answered = true
				take(a)
			}
		})
	}
	arrive := func() {
		s := w.shardOf(op)
		if w.Now < s.away {
			return
		}
		a, repeated := s.done[call]
		if !repeated {
			a = s.of(p.timeline).Do(op)
			s.done[call] = a
			w.note("chain executes %d of %s: %s", call.id, call.process, describeOp(op, &a))
		}
		if w.Now >= g.cutChain {
			w.carry(func() { answer(a) })
		}
	}
	read := op.Kind == core.ReadRevision || op.Kind == core.ReadObject
	var send func()
	send = func() {
		switch {
		case answered || p.dead || p.ended:
			return
		case op.Kind == core.Max && w.Now < g.paused: // the process does nothing
			w.After(g.paused-w.Now, send)
			return
		case op.Kind == core.Max && !p.core.Timely(op.Rev):
			answer(core.Answer{Status: core.Away})
			return
		}
		if w.Now >= g.cutChain {
			w.carry(arrive)
		}
		if !read {
			w.After(repeatAfter, send)
		}
	}
	send()
	if read {
		w.After(readTimeout, func() {
			if !answered {
				answer(core.Answer{Status: core.Away})
			}
		})
	}
}
