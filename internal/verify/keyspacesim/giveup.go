package keyspacesim

import (
	"slices"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// nextLoss plans the next loss of a majority of the disks.
func (w *world) nextLoss() {
	if w.GiveUp == 0 {
		return
	}
	w.After(w.exp(w.GiveUp), func() {
		if !w.calm {
			w.loseMajority()
		}
		w.nextLoss()
	})
}

// loseMajority empties most disks of the active era, and has an operator give them up. While an era is prepared it does
// not: the disks of that era may have the only copies then.
func (w *world) loseMajority() {
	set := w.record.Active.Set
	if len(set) < 3 || w.record.Recovering > 0 || len(w.record.Lost) > 0 {
		return
	}
	left := slices.DeleteFunc(slices.Clone(set), func(d core.Disk) bool { return w.gateways[d.Name-1].disk.Disk != d })
	w.rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	left = left[:min(len(left), 1+w.rng.IntN(len(set)/2))]
	if !slices.ContainsFunc(left, func(d core.Disk) bool {
		return w.gateways[d.Name-1].disk.synced.Last.Era >= w.record.Active.Number
	}) {
		return // nothing of the active era would be left
	}
	var lost []core.Disk
	for _, d := range set {
		if slices.Contains(left, d) {
			continue
		}
		lost = append(lost, d)
		if g := w.gateways[d.Name-1]; g.disk.Disk == d {
			w.stop(g, w.rng.Uint64N(uint64(w.Lasts)))
			g.disk = w.newDisk(g.name)
		}
	}
	r, err := w.record.GiveUp(lost)
	if err != nil {
		w.broken("disks cannot be given up: %v", err)
		return
	}
	w.result.GivenUp++
	w.version, w.record = w.version+1, r
	w.note("disks %v are lost and given up: record %+v", lost, r)
	for _, g := range w.gateways {
		w.readRecord(g)
	}
}

// begins notes that an era begins. After disks were given up, what only they had is lost.
func (w *world) begins(r *core.Record) {
	if len(w.record.Lost) == 0 || r.Active.Number == w.record.Active.Number {
		return
	}
	w.forced, w.cut = r.Active.Number, int(r.Active.Base.Index)
	if len(w.shown) > w.cut {
		w.result.Dropped += len(w.shown) - w.cut
		w.shown = slices.Clip(w.shown[:w.cut])
	}
}
