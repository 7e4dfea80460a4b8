package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

const (
	// extendLeases is how long the leases of clients last longer after a takeover: they could not be renewed meanwhile.
	extendLeases = 3 * time.Second
	// maxBatches that the chain has committed wait to be applied.
	maxBatches = 4
)

// leader is the active gateway's part, for one term.
type leader struct {
	g          *Gateway
	header     pb.ResponseHeader // of responses, without a revision
	space      *keyspace.Keyspace
	lock       *client.Lock
	writer     *driver.Writer // of a keyspace on disks
	term       uint64
	ctx        context.Context // until the lock is lost
	cancel     context.CancelCauseFunc
	proposals  *queue
	barrier    barrier
	background sync.WaitGroup
	saving     atomic.Bool
	unsaved    atomic.Bool // the last snapshot failed
	retention  retention
	reserved   reservations
	forgetting sync.Mutex // of forgetAll
}

// leadWith leads the keyspace until the lock is lost or ctx ends.
func (g *Gateway) leadWith(ctx context.Context, lock *client.Lock) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-lock.Done():
			cancel(lock.Err())
		case <-ctx.Done():
		}
	}()
	var writer *driver.Writer
	var err error
	if g.disk != nil {
		writer, err = g.takeOverOnDisk(ctx, lock.Token(), cancel)
	} else {
		err = g.takeOver(ctx, lock.Token())
	}
	if err != nil {
		return err
	}
	l := &leader{
		g: g, writer: writer, space: g.current(), lock: lock, term: lock.Token(), ctx: ctx, cancel: cancel,
	}
	l.proposals = newQueue(l.maxBatch())
	l.header.ClusterId, l.header.MemberId, l.header.RaftTerm = g.number(), g.self.ID, l.term
	l.space.Leases().Promote(extendLeases)
	defer l.space.Leases().Demote()
	g.o.Log.Info("this gateway is active", "term", l.term, "revision", l.space.Revision())
	g.leads(l)
	defer g.leads(nil)
	if g.o.Begin == nil {
		l.background.Go(l.expire)
	}
	err = l.run()
	cancel(err)
	l.background.Wait()
	return err
}

// takeOver reads the log to its end and makes it this gateway's.
func (g *Gateway) takeOver(ctx context.Context, term uint64) error {
	if g.log == nil {
		err := g.open(ctx)
		if errors.Is(err, chainlog.ErrNone) {
			g.o.Log.Info("making the keyspace", "name", g.o.Name, "objects", g.o.LogEntries)
			if _, err = chainlog.Create(ctx, g.o.Chain, g.o.Name, term, g.o.LogEntries, g.firstRevision()); err == nil {
				err = g.open(ctx)
			}
			if errors.Is(err, client.ErrFull) {
				err = fmt.Errorf("%w: %w: give the chain's nodes more --objects", errCreate, err)
			}
		}
		if err != nil {
			return err
		}
	}
	for {
		err := g.log.Lead(ctx, term, func(batch []byte) error { return g.applyBatch(g.log.Next()-1, batch) })
		switch {
		case errors.Is(err, chainlog.ErrBehind):
			err = g.reload(ctx)
		case err == nil:
			g.found()
			return nil
		case fatal(err), errors.Is(err, chainlog.ErrDeposed):
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			level, wait := slog.LevelDebug, retryEvery
			if errors.Is(err, chainlog.ErrFull) {
				level, wait = slog.LevelWarn, g.o.LockTTL
				err = fmt.Errorf("%w: give the chain's nodes more --objects", err)
			}
			g.o.Log.Log(ctx, level, "the log cannot be taken over yet", "error", err)
			pause(ctx, nil, wait)
		}
	}
}

// errRebuilt ends a term whose copy was made again: calls of the term use the copy before.
var errRebuilt = errors.New("the copy of the keyspace was made again")

// cause is why the leader ends.
func (l *leader) cause() error { return context.Cause(l.ctx) }

// isActive reports whether no other gateway can be active.
func (l *leader) isActive() bool { return l.ctx.Err() == nil && l.lock.Left() > 0 }

// propose has a command executed in every gateway. The error errNotActive means that it has not been and will not be.
func (l *leader) propose(ctx context.Context, request *pb.InternalRaftRequest) (proto.Message, error) {
	encoded, err := keyspace.Encode(request)
	if err != nil {
		return nil, err
	}
	w := make(waiter, 1)
	p := &proposal{command: keyspace.CommandOf(request), encoded: encoded, caller: w}
	if err := l.submit(ctx, p); err != nil {
		return nil, err
	}
	select {
	case a := <-w:
		return a.Message(), a.err
	case <-ctx.Done():
		if p.owner.CompareAndSwap(0, takenBack) {
			p.release()
		}
		return nil, ctx.Err()
	}
}

// proposeOwn has a command executed that no client has asked for.
func (l *leader) proposeOwn(ctx context.Context, request *pb.InternalRaftRequest) (proto.Message, error) {
	if err := l.g.sign(itself(ctx), request); err != nil {
		return nil, err
	}
	return l.propose(ctx, request)
}

// submit queues a proposal, after it has waited for its quota. If it fails, the proposal's caller hears nothing.
func (l *leader) submit(ctx context.Context, p *proposal) error {
	if len(p.encoded) > l.g.o.MaxRequestBytes {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	if err := l.await(ctx, p); err != nil {
		return err
	}
	if !l.proposals.push(p) {
		p.release()
		return errNotActive
	}
	return nil
}

// push has a command executed, unless it would have to wait for its quota, or is too large.
func (l *leader) push(command keyspace.Command, encoded []byte, caller caller) bool {
	p := &proposal{command: command, encoded: encoded, caller: caller}
	if len(encoded) > l.g.o.MaxRequestBytes || l.reserve(p) != nil {
		return false
	}
	if !l.proposals.push(p) {
		p.release()
		return false
	}
	return true
}

// expire revokes leases whose time is up.
func (l *leader) expire() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case expired := <-l.space.Leases().ExpiredLeasesC():
			for _, lease := range expired {
				command := &pb.InternalRaftRequest{LeaseRevoke: &pb.LeaseRevokeRequest{ID: int64(lease.ID)}}
				if _, err := l.proposeOwn(l.ctx, command); err != nil {
					l.g.o.Log.Debug("an expired lease", "id", lease.ID, "error", err)
				}
			}
		}
	}
}
