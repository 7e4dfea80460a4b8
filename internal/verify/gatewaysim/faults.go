package gatewaysim

import "github.com/netcraq/netcraq/internal/gateway/core"

// nextFault plans the next fault.
func (w *world) nextFault() {
	w.After(uint64(w.rng.ExpFloat64()*float64(w.Every)), func() {
		if w.calm {
			return
		}
		if f := Fault(w.rng.IntN(int(Lost))); w.Quiet&(1<<f) == 0 {
			w.strike(f)
		}
		w.nextFault()
	})
}

func (w *world) strike(f Fault) {
	g := w.gateways[w.rng.IntN(len(w.gateways))]
	until := w.Now + w.rng.Uint64N(2*uint64(w.Lease))
	if f != Crash {
		w.result.Faults[f]++
		w.note("fault: %v, gateway %d, for %d us", f, g.number, (until-w.Now)/1000)
	}
	switch f {
	case Crash:
		g.crash()
	case Pause:
		g.paused = max(g.paused, until)
	case CutEtcd:
		g.cutEtcd = until
	case CutChain:
		g.cutChain = until
	case Reconfigure:
		w.result.Reconfigurations++
		w.shards[w.rng.IntN(len(w.shards))].away = w.Now + w.rng.Uint64N(60*ms)
	case LoseShard:
		if w.rng.IntN(3) > 0 { // or hardly anything would be cached for long
			return
		}
		w.result.Reconfigurations++
		w.shards[w.rng.IntN(len(w.shards))] = w.newShard()
	case EndSession:
		if p := g.process; p != nil && w.etcd.leases[p.core.Lease()] != 0 {
			w.etcd.doomed[p.core.Lease()] = true
			w.endWhenOver(p, p.core.Lease())
		}
	case LeaderLost:
		w.etcd.away = max(w.etcd.away, w.Now+w.rng.Uint64N(60*ms))
	}
}

// endWhenOver ends a doomed lease as soon as its gateway no longer relies on it.
func (w *world) endWhenOver(p *process, lease string) {
	w.After(w.rng.Uint64N(2*ms), func() {
		switch {
		case w.etcd.dead[lease] || w.calm:
		case p.lease == lease && w.Now < p.until:
			w.endWhenOver(p, lease)
		default:
			w.etcd.end(lease)
		}
	})
}

// nextPlacing plans the next change of the directory, of one key or of several, sometimes by two
// gateways at once.
func (w *world) nextPlacing() {
	w.After(uint64(w.rng.ExpFloat64()*float64(w.Placing)), func() {
		if w.calm {
			return
		}
		g := w.gateways[w.rng.IntN(len(w.gateways))]
		var keys []string
		in, again := w.rng.IntN(16) > 0, w.rng.IntN(12) == 0 // keys that have a place are placed anew
		for _, i := range w.rng.Perm(w.Keys)[:1+w.rng.IntN(w.Keys)] {
			if (!in || again || g.process == nil || !g.process.caches(keyName(i))) && !(in && keyName(i) == w.past && !w.allowed) {
				keys = append(keys, keyName(i))
			}
		}
		if len(keys) > 0 {
			g.place(in, keys...)
			if again {
				w.gateways[w.rng.IntN(len(w.gateways))].place(true, keys...)
			}
		}
		w.nextPlacing()
	})
}

// caches reports whether a gateway takes a key for placed, and an object of it is there.
func (p *process) caches(key string) bool {
	_, inherited := p.core.BeginRead(key)
	read := core.Op{Kind: core.ReadObject, Key: key}
	return p.core.Has(key) && !inherited && p.g.w.shardOf(&read).of(p.timeline).Do(&read).Status == core.OK
}
