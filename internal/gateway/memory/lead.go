package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

const (
	// extendLeases is how long the leases of clients last longer after a takeover: they could not be renewed meanwhile.
	extendLeases = 3 * time.Second
	// maxWaiting proposals wait for the log.
	maxWaiting = 4096
	// maxBatches that the chain has committed wait to be applied.
	maxBatches = 4
	// quotaBytes bounds the file of the keyspace, as etcd's --quota-backend-bytes.
	quotaBytes = 2 << 30
)

// leader is the active gateway's part, for one term.
type leader struct {
	g          *Gateway
	space      *keyspace.Keyspace
	lock       *client.Lock
	term       uint64
	ctx        context.Context // until the lock is lost
	proposals  chan *proposal
	ended      chan struct{} // closed when no more proposals are taken
	background sync.WaitGroup
	saving     atomic.Bool
	unsaved    atomic.Bool  // the last snapshot failed
	compacting atomic.Int64 // the newest revision up to which history was forgotten
}

// proposal is a command that waits for its answer.
type proposal struct {
	command *pb.InternalRaftRequest
	owner   atomic.Int32 // see below
	done    chan answer
}

// A proposal belongs to its caller until the leader takes it, or the caller takes it back.
const (
	taken = iota + 1
	takenBack
)

type answer struct {
	message proto.Message
	err     error
}

// errNotActive: the call had no effect, because this gateway is not active.
var errNotActive = errors.New("this gateway is not active")

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
	if err := g.takeOver(ctx, lock.Token()); err != nil {
		return err
	}
	l := &leader{
		g: g, space: g.space, lock: lock, term: lock.Token(), ctx: ctx,
		proposals: make(chan *proposal, maxWaiting), ended: make(chan struct{}),
	}
	l.space.Leases().Promote(extendLeases)
	defer l.space.Leases().Demote()
	g.o.Log.Info("this gateway is active", "term", l.term, "revision", l.space.Revision(), "entry", g.log.Next())
	g.leads(l)
	defer g.leads(nil)
	l.background.Go(l.expire)
	err := l.run()
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
			if _, err = chainlog.Create(ctx, g.o.Chain, g.o.Name, term, g.o.LogEntries); err == nil {
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
		err := g.log.Lead(ctx, term, g.applyBatch)
		switch {
		case errors.Is(err, chainlog.ErrBehind):
			err = g.reload(ctx)
		case err == nil, fatal(err), errors.Is(err, chainlog.ErrDeposed):
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			g.o.Log.Debug("the log cannot be taken over yet", "error", err)
			pause(ctx, nil, retryEvery)
		}
	}
}

// cause is why the leader ends.
func (l *leader) cause() error { return context.Cause(l.ctx) }

// holds reports whether no other gateway can be active.
func (l *leader) holds() bool { return l.ctx.Err() == nil && l.lock.Left() > 0 }

// propose has a command executed in every gateway. The error errNotActive means that it has not been and will not be.
func (l *leader) propose(ctx context.Context, command *pb.InternalRaftRequest) (proto.Message, error) {
	if _, used := l.space.Bytes(); used > quotaBytes && grows(command) {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	if proto.Size(command) > l.g.o.MaxRequestBytes {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	p := &proposal{command: command, done: make(chan answer, 1)}
	select {
	case l.proposals <- p:
	case <-l.ended:
		return nil, errNotActive
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-p.done:
		return a.message, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ended:
	}
	if p.owner.CompareAndSwap(0, takenBack) {
		return nil, errNotActive
	}
	a := <-p.done // the leader answers what it has taken
	return a.message, a.err
}

func grows(c *pb.InternalRaftRequest) bool {
	return c.Put != nil || c.Txn != nil || c.LeaseGrant != nil
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
				if _, err := l.propose(l.ctx, command); err != nil {
					l.g.o.Log.Debug("an expired lease", "id", lease.ID, "error", err)
				}
			}
		}
	}
}
