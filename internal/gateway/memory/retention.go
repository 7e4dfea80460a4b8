package memory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
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
	if _, err := l.proposeOwn(ctx, command); err != nil {
		l.g.o.Log.Debug("the history", "error", err)
		return
	}
	select {
	case <-l.space.Settled():
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

// reservations counts what the commands may take that are not applied yet.
type reservations struct {
	mu     sync.Mutex
	queued int64
	until  int64         // freed is closed when no more than that is queued
	freed  chan struct{} // nil: nobody waits
}

// take reserves the cost of a command, if what is free suffices for it besides the queued ones. One that is alone needs
// only what it certainly takes. Otherwise it returns a channel that is closed when half of them are applied.
func (r *reservations) take(c keyspace.Cost, free int64) (wait <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queued == 0 || r.queued+c.Most < free {
		r.queued += c.Most
		return nil
	}
	if r.freed == nil {
		r.freed, r.until = make(chan struct{}), r.queued/2
	}
	return r.freed
}

func (r *reservations) release(cost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queued -= cost; r.freed != nil && r.queued <= r.until {
		close(r.freed)
		r.freed = nil
	}
}

// errWait: a command must wait until others are applied.
var errWait = errors.New("others are queued")

// reserve counts a proposal towards the quota, as etcd does. Commands that are queued count as if they were applied.
func (l *leader) reserve(p *proposal) error {
	_, err := l.tryReserve(p)
	return err
}

func (l *leader) tryReserve(p *proposal) (wait <-chan struct{}, err error) {
	cost := p.command.Cost(int64(l.g.o.MaxRequestBytes))
	if cost.Least == 0 {
		return nil, nil
	}
	free := l.g.o.QuotaBytes - l.space.Bytes()
	if cost.Least >= free || l.space.Full() {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	if wait = l.reserved.take(cost, free); wait != nil {
		return wait, errWait
	}
	p.reserved, p.cost = &l.reserved, cost.Most
	return nil, nil
}

// await waits until a proposal is reserved. It has all history forgotten if the keyspace is full. If that does not make
// room, it raises the alarm NOSPACE, as etcd does.
func (l *leader) await(ctx context.Context, p *proposal) error {
	for forgot := false; ; {
		wait, err := l.tryReserve(p)
		switch {
		case errors.Is(err, rpctypes.ErrGRPCNoSpace) && l.space.Full():
			return err
		case errors.Is(err, rpctypes.ErrGRPCNoSpace) && !forgot:
			forgot = true
			l.forgetAll(ctx, p)
		case errors.Is(err, rpctypes.ErrGRPCNoSpace):
			l.raise(ctx)
			return err
		case !errors.Is(err, errWait):
			return err
		default:
			select {
			case <-wait:
				forgot = false
			case <-ctx.Done():
				return ctx.Err()
			case <-l.ctx.Done():
				return errNotActive
			}
		}
	}
}

// raise raises the alarm NOSPACE. If that fails, the next write does it.
func (l *leader) raise(ctx context.Context) {
	l.g.o.Log.Warn("the keyspace is full: delete keys, and then run etcdctl alarm disarm", "quota", l.g.o.QuotaBytes)
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: l.g.self.ID, Alarm: pb.AlarmType_NOSPACE}
	if _, err := l.proposeOwn(ctx, &pb.InternalRaftRequest{Alarm: alarm}); err != nil {
		l.g.o.Log.Debug("the alarm", "error", err)
	}
}

// forgetAll forgets all history, unless another caller has done so meanwhile.
func (l *leader) forgetAll(ctx context.Context, p *proposal) {
	l.forgetting.Lock()
	defer l.forgetting.Unlock()
	full := l.space.Bytes()+p.command.Cost(0).Least >= l.g.o.QuotaBytes
	if revision := l.space.Revision(); full && revision > l.space.Compacted() {
		l.forget(ctx, revision)
	}
}
