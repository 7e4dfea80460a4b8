package gatewaysim

import "github.com/netcraq/netcraq/internal/gateway/core"

// nearbyShare is how many rounds of reads, of ten, find what they want in the memory of a node on the gateway's machine.
const nearbyShare = 3

// reads are the reads of a process that share rounds, as internal/gateway/engine drives them.
type reads struct {
	waiting *round
	running bool
	calls   uint64 // of the chain
}

// round is a round and the requests that it answers, by key.
type round struct {
	core.Round
	requests [][]uint64
}

// read takes a client's linearizable read of one key.
func (p *process) read(id uint64, key string) {
	instance, _ := p.core.BeginRead(key)
	if instance == 0 || !p.tenure.Reads() {
		p.miss(id)
		return
	}
	w, r := p.g.w, &p.reads
	if r.waiting == nil {
		r.waiting = &round{Round: core.Round{Without: w.Without}}
	}
	i := r.waiting.Join(key, instance)
	if i == len(r.waiting.requests) {
		r.waiting.requests = append(r.waiting.requests, nil)
	}
	r.waiting.requests[i] = append(r.waiting.requests[i], id)
	if !r.running {
		r.running = true
		w.After(0, func() { w.enter(p, p.nextRound) })
	}
}

// miss has etcd answer a read.
func (p *process) miss(id uint64) {
	if x := p.g.asked[id]; x != nil && !p.ended {
		p.g.w.passCall(p, id, x.direct)
	}
}

// nextRound begins a round with what waits. The next one begins when this one has its revision.
func (p *process) nextRound() {
	w, r := p.g.w, p.reads.waiting
	if p.reads.waiting, p.reads.running = nil, r != nil; r == nil || p.ended {
		return
	}
	if w.rng.IntN(10) >= nearbyShare || w.Now < p.g.cutChain {
		p.goOn(r, true)
		return
	}
	revision := w.near(p, &core.Op{Kind: core.ReadRevision})
	w.After(w.rng.Uint64N(uint64(w.Latency)), func() {
		w.enter(p, func() {
			objects := make([]core.Answer, len(r.Keys()))
			for i, key := range r.Keys() {
				objects[i] = w.near(p, &core.Op{Kind: core.ReadObject, Key: key})
			}
			r.Nearby(revision, objects)
			p.goOn(r, true)
		})
	})
}

// near reads from the memory of a node on the gateway's machine, which may not answer.
func (w *world) near(p *process, op *core.Op) core.Answer {
	if s := w.shardOf(op); w.Now >= max(s.away, p.g.cutChain) && w.rng.IntN(8) > 0 {
		return s.of(p.timeline).Do(op)
	}
	return core.Answer{Status: core.Away}
}

// goOn reads what a round needs next, and ends it when it needs nothing. first says that no other round has begun since.
func (p *process) goOn(r *round, first bool) {
	kind, more := r.Next()
	if first && (!more || kind == core.ReadObject && r.Without&core.ReadOrder == 0) {
		first = false
		p.nextRound()
	}
	if !more {
		p.endRound(r)
		return
	}
	if kind == core.ReadRevision {
		p.ask(&core.Op{Kind: kind}, func(a core.Answer) {
			r.Revision(a)
			p.goOn(r, first)
		})
		return
	}
	keys := r.Missing()
	answers, left := make([]core.Answer, len(keys)), len(keys)
	for i, key := range keys {
		p.ask(&core.Op{Kind: kind, Key: key}, func(a core.Answer) {
			answers[i] = a
			if left--; left == 0 {
				r.Objects(answers)
				p.goOn(r, first)
			}
		})
	}
}

// ask reads the chain through the network.
func (p *process) ask(op *core.Op, take func(core.Answer)) {
	p.reads.calls++
	p.g.w.sendChain(p, session{p.name + ", reading", p.reads.calls}, op, take)
}

// endRound answers the reads of a round.
func (p *process) endRound(r *round) {
	for i, requests := range r.requests {
		rev, hit := p.core.Judge(&r.Round, i)
		for _, id := range requests {
			if !hit {
				p.miss(id)
			} else if x := p.g.asked[id]; x != nil {
				x.hit = true
				p.g.w.reply(p, &core.Reply{ID: id, Rev: rev, Entry: r.Object(i).Object.Entry})
			}
		}
	}
}
