package memory

import (
	"context"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A keyspace forgets history that no client compacts. It keeps a number of revisions, and no more bytes of them than a
// share of its quota. When the keyspace is nearly full it keeps less.
const (
	historyShare = 4 // history takes up to a quarter of the quota, and a quarter of that more before it is forgotten
	nearlyFull   = 8 // less history is kept while less than an eighth of the quota is free
	// fullEvery is how often history is forgotten in a keyspace that is nearly full, if little is written.
	fullEvery = time.Second
)

// usage is what a keyspace has.
type usage struct {
	revision, compacted int64
	bytes               int64         // all of it
	since               int64         // bytes of the revisions after compacted
	idle                time.Duration // since history was forgotten last
}

// keeps decides whether history is forgotten, and how much of it is kept at most.
func (u usage) keeps(quota, revisions int64) (keepRevisions, keepBytes int64, forget bool) {
	most := quota / historyShare
	switch {
	case u.revision <= u.compacted:
		return 0, 0, false
	case u.bytes > quota-quota/nearlyFull && (u.since > most/4 || u.idle > fullEvery):
		return revisions, most / 8, true
	case u.since > most+most/4 || u.revision-u.compacted > revisions+revisions/4:
		return revisions, most, true
	}
	return 0, 0, false
}

// retention is what the active gateway knows about history. The goroutine that applies commands uses it.
type retention struct {
	compacted int64 // the revision up to which history was forgotten
	base      int64 // of Written: what was written since that revision
	last      time.Time
	busy      atomic.Bool
}

// compact has history forgotten, if there is too much.
func (l *leader) compact() {
	h := &l.retention
	if h.busy.Load() {
		return
	}
	if compacted := l.space.Compacted(); compacted != h.compacted {
		h.compacted, h.base = compacted, l.space.Written()-l.space.Since(compacted)
	}
	revision := l.space.Revision()
	keepRevisions, keepBytes, forget := usage{
		revision: revision, compacted: h.compacted, bytes: l.space.Bytes(), since: l.space.Written() - h.base,
		idle: time.Since(h.last),
	}.keeps(l.g.o.QuotaBytes, l.g.o.History)
	if !forget {
		return
	}
	h.last = time.Now()
	to := revision - keepRevisions
	if cut, _ := l.space.Cut(keepBytes); cut > to {
		to = cut
	}
	if to <= h.compacted {
		return
	}
	h.busy.Store(true)
	l.background.Go(func() {
		defer h.busy.Store(false)
		l.forget(l.ctx, to)
	})
}

// forget forgets history up to a revision, and waits until it takes no more memory.
func (l *leader) forget(ctx context.Context, revision int64) {
	command := &pb.InternalRaftRequest{Compaction: &pb.CompactionRequest{Revision: revision}}
	if _, err := l.propose(ctx, command); err != nil {
		l.g.o.Log.Debug("the history", "error", err)
		return
	}
	select {
	case <-l.space.Settled():
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

// fits reports whether the keyspace has room for a cost, as etcd's quota.
func (l *leader) fits(cost int64) bool { return cost == 0 || l.space.Bytes()+cost < l.g.o.QuotaBytes }

// makeRoom forgets all history if the keyspace is full. It returns false if there is no room nevertheless.
func (l *leader) makeRoom(ctx context.Context, cost int64) bool {
	if l.fits(cost) {
		return true
	}
	l.room.Lock()
	defer l.room.Unlock()
	if revision := l.space.Revision(); !l.fits(cost) && revision > l.space.Compacted() {
		l.forget(ctx, revision)
	}
	return l.fits(cost)
}
