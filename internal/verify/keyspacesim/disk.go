package keyspacesim

import (
	"slices"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// content is what a disk has.
type content struct {
	core.Stored
	items []item // up to Last.Index
}

// written is a write that was not synced.
type written struct {
	life    int
	seq     uint64
	content content // with it
	first   int     // the number of items before an append; -1: it is no append
}

// disk is a model of a data directory. A process that ends leaves what it wrote; a power failure leaves what was
// synced, and of the rest all that was written before some moment, to a whole entry: checksums find a torn one.
type disk struct {
	w *world
	core.Disk
	synced  content
	now     content
	pending []written
	syncing bool
	losses  int
}

func (w *world) newDisk(name uint64) *disk {
	return &disk{w: w, Disk: core.Disk{Name: name, Identity: w.id()}}
}

// write changes the content.
func (d *disk) write(l *life, seq uint64, c content, first int) {
	d.now = c
	d.pending = append(d.pending, written{l.number, seq, c, first})
	d.sync()
}

// sync syncs all that is written now, and then what was written meanwhile.
func (d *disk) sync() {
	if d.syncing || len(d.pending) == 0 {
		return
	}
	d.syncing = true
	w, losses, last := d.w, d.losses, d.pending[len(d.pending)-1]
	took := w.exp(w.SyncTime)
	g := w.gateways[d.Name-1]
	if w.Now < g.slow {
		took += g.slow - w.Now
	}
	w.After(took, func() {
		if d.losses != losses {
			return
		}
		d.syncing, d.synced = false, last.content
		for len(d.pending) > 0 {
			done := d.pending[0]
			d.pending = d.pending[1:]
			if done.life == last.life && done.seq == last.seq {
				break
			}
		}
		if l := g.life; l != nil && g.disk == d && l.number == last.life {
			l.enter(func() { l.core.Synced(last.seq) })
		}
		d.sync()
	})
}

// power ends the power of the disk's machine.
func (d *disk) power() {
	n := d.w.rng.IntN(len(d.pending) + 1)
	after := d.synced
	if n > 0 {
		after = d.pending[n-1].content
	}
	if n < len(d.pending) {
		if torn := d.pending[n]; torn.first >= 0 && torn.first == len(after.items) {
			end := torn.first + d.w.rng.IntN(len(torn.content.items)-torn.first)
			if end > torn.first {
				after.items = slices.Clip(torn.content.items[:end])
				after.Last.Index, after.Last.Term = uint64(end), after.items[end-1].term
			}
		}
	}
	d.now, d.synced, d.pending, d.syncing = after, after, nil, false
	d.losses++
}
