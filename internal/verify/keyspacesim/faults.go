package keyspacesim

import (
	"slices"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// nextFault plans the next fault.
func (w *world) nextFault() {
	w.After(w.exp(w.Every), func() {
		if w.calm {
			return
		}
		var kinds []Fault
		for f := range LostMessage {
			if w.Quiet&(1<<f) == 0 {
				kinds = append(kinds, f)
			}
		}
		if len(kinds) > 0 {
			w.strike(kinds[w.rng.IntN(len(kinds))])
		}
		w.nextFault()
	})
}

func (w *world) strike(f Fault) {
	g := w.gateways[w.rng.IntN(len(w.gateways))]
	lasts := w.rng.Uint64N(uint64(w.Lasts))
	until := w.Now + lasts
	w.result.Faults[f]++
	w.note("fault: %v, gateway %d, for %d us", f, g.name, lasts/1000)
	switch f {
	case Crash:
		w.stop(g, lasts)
	case CrashAll:
		for _, g := range w.gateways {
			w.stop(g, w.rng.Uint64N(lasts+1))
		}
	case Power:
		w.stop(g, lasts)
		g.disk.power()
	case PowerAll:
		for _, g := range w.gateways {
			w.stop(g, w.rng.Uint64N(lasts+1))
			g.disk.power()
		}
		w.loseChain()
	case Pause:
		g.paused = max(g.paused, until)
	case Cut:
		g.cut = max(g.cut, until)
	case CutRecord:
		deaf := []*gateway{g}
		if w.Several {
			deaf = append(deaf, w.gateways[w.rng.IntN(len(w.gateways))])
		}
		heard := w.Now + w.rng.Uint64N(lasts+1)
		for _, g := range deaf {
			if g.cutRecord = max(g.cutRecord, until); w.Severe {
				g.cut = max(g.cut, heard)
			}
		}
	case SlowSync:
		g.slow = max(g.slow, until)
	case LoseDisk:
		w.loseDisk(g, lasts)
	case LoseShard:
		w.chain.lose(w.rng.IntN(w.Shards))
	case LoseChain:
		w.loseChain()
	case ShardAway:
		w.chain.away[w.rng.IntN(w.Shards)] = until
	case NewSet:
		w.begin(g)
	case Compete:
		for _, g := range w.gateways {
			if w.rng.IntN(2) == 0 {
				w.After(w.delay(), func() { w.begin(g) })
			}
		}
	default:
	}
}

// begin has a gateway begin a recovery.
func (w *world) begin(g *gateway) {
	if l := g.life; l != nil && !w.calm {
		l.enter(l.recover)
	}
}

// stop ends a process, which starts again.
func (w *world) stop(g *gateway, after uint64) {
	g.end()
	w.After(after, func() {
		if g.life == nil {
			g.start()
		}
	})
}

func (w *world) loseChain() {
	for shard := range w.Shards {
		w.chain.lose(shard)
	}
}

// loseDisk empties a disk, unless too few were left of a set that may have the only copies.
func (w *world) loseDisk(g *gateway, lasts uint64) {
	left := func(set []core.Disk) int {
		return len(slices.DeleteFunc(slices.Clone(set), func(d core.Disk) bool {
			return d.Name == g.name || w.gateways[d.Name-1].disk.Disk != d
		}))
	}
	for _, set := range [][]core.Disk{w.record.Active.Set, w.record.Next} {
		if left(set) < len(set)/2+1 && len(set) > 0 {
			w.result.Faults[LoseDisk]--
			return
		}
	}
	w.stop(g, lasts/8)
	g.disk = w.newDisk(g.name)
	w.note("the disk of gateway %d is emptied: now %d", g.name, g.disk.Identity)
	if other := w.gateways[w.rng.IntN(len(w.gateways))]; w.Several && other != g {
		other.paused = max(other.paused, w.Now+lasts)
		w.loseChain()
	}
}
