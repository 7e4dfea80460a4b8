package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

var errNoLease = errors.New("the session has no lease yet")

// lease is that of a session in etcd.
type lease struct {
	name  string
	id    atomic.Int64 // 0: not granted yet
	ready chan struct{}
	ctx   context.Context
	stop  context.CancelFunc
	// ending is set, under the engine's mu, before the gateway revokes the lease: it is not extended any more.
	ending bool
}

// granted waits for the lease's number. A gateway that ends has no lease.
func (l *lease) granted(ctx context.Context) (int64, error) {
	if l == nil {
		return 0, errNoLease
	}
	select {
	case <-l.ready:
		return l.id.Load(), nil
	case <-ctx.Done():
		return 0, errNoLease
	}
}

// noLease reports whether an error says that a lease has ended.
func noLease(err error) bool {
	return status.Code(err) == codes.NotFound && strings.Contains(err.Error(), "lease not found")
}

// bootTime is time since the machine started, sleep included.
func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Now().UnixNano() //nolint:forbidigo // every Linux has the other
	}
	return t.Nano()
}

// alive reports whether the session's lease lasts for certain.
func (e *Engine) alive() bool { return bootTime() < e.until.Load() }

// lease returns that of a session, and grants and keeps it from the first use on.
func (e *Engine) lease(name string) *lease {
	if name == "" || e.leases == nil {
		return nil
	}
	l := e.leases[name]
	if l == nil && name == e.core.Lease() {
		l = &lease{name: name, ready: make(chan struct{})}
		l.ctx, l.stop = context.WithCancel(e.ctx)
		e.leases[name] = l
		e.until.Store(0)
		e.tenure, e.tenured = core.Tenure{}, name
		go e.keep(l)
	}
	return l
}

// keep grants a lease and keeps it alive until it is gone or not wanted any more.
func (e *Engine) keep(l *lease) {
	client := pb.NewLeaseClient(e.o.Etcd)
	for l.id.Load() == 0 {
		ctx, cancel := context.WithTimeout(l.ctx, ownWithin)
		sent := bootTime()
		answer, err := client.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: newLease(), TTL: int64(e.o.Lease / time.Second)})
		cancel()
		switch {
		case l.ctx.Err() != nil:
			return
		case err != nil:
			e.o.Log.Warn("etcd grants no lease for the gateway's session; it is asked again", "error", err)
			e.check(l, nil)
			retry.Sleep(l.ctx, time.Second)
			continue
		}
		l.id.Store(answer.ID)
		e.mu.Lock()
		if e.tenured == l.name {
			e.tenure.Begin(sent, int64(e.lasts(answer.TTL)))
		}
		e.mu.Unlock()
		go e.watchSession(l, answer.Header.Revision+1)
		e.proven(l, sent, answer.TTL)
		close(l.ready)
	}
	for lapsed := false; l.ctx.Err() == nil; {
		ttl, sent, err := e.extend(l)
		if !lapsed && e.lapsed(l) {
			lapsed = true
			e.o.Log.Warn("the gateway's session was not extended in time; it begins another")
			go e.renew(e.ctx)
		}
		switch {
		case l.ctx.Err() != nil:
			return
		case err != nil:
			e.o.Log.Debug("the session's lease is not extended", "error", err)
			e.check(l, nil)
			retry.Sleep(l.ctx, 100*time.Millisecond)
			continue
		case ttl <= 0:
			e.o.Log.Warn("the gateway's session has ended; it begins another")
			e.do(func(g *core.Gateway) { g.SessionLost(l.name) })
			return
		}
		e.proven(l, sent, ttl)
		retry.Sleep(l.ctx, e.o.Lease/4)
	}
}

// extend asks etcd once to extend a lease.
func (e *Engine) extend(l *lease) (ttl, sent int64, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, e.o.Lease/2)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	stream, err := pb.NewLeaseClient(e.o.Etcd).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return 0, 0, err
	}
	sent = bootTime()
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: l.id.Load()}); err != nil {
		return 0, 0, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return 0, 0, err
	}
	return answer.TTL, sent, nil
}

// proven extends the session if etcd still answers everybody, with the history that it had, and has the session's keys.
func (e *Engine) proven(l *lease, sent, ttl int64) {
	same := func(seen *core.Seen) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.tenured == l.name && !l.ending {
			e.tenure.Extend(bootTime(), sent, int64(e.lasts(ttl)), seen)
		}
	}
	if e.check(l, same) && e.proveKeys(l) {
		e.extended(l, sent, ttl)
	}
}

// lapsed reports whether the session of a lease is to be given up.
func (e *Engine) lapsed(l *lease) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tenured == l.name && e.tenure.Over(bootTime())
}

// check proves that the cache may go on, or ends it. It calls same, unless that is nil, if etcd's history is the same.
func (e *Engine) check(l *lease, same func(*core.Seen)) bool {
	e.checking.Lock()
	defer e.checking.Unlock()
	asked := bootTime()
	err := e.prove(l.ctx, same)
	switch {
	case errors.Is(err, ErrAuth), errors.Is(err, ErrRestored):
		e.withdraw(err, asked)
	case err != nil && l.ctx.Err() == nil:
		e.o.Log.Debug("the session's lease does not count as extended", "error", err)
	}
	return err == nil
}

// lasts is the time that a lease lasts at least. etcd may grant more time than was asked for, which does not count:
// [Engine.Bypassed] waits for the time that was.
func (e *Engine) lasts(ttl int64) time.Duration {
	return min(time.Duration(ttl)*time.Second, e.o.Lease)
}

// extended notes how long a lease lasts for certain: from when it was asked for.
func (e *Engine) extended(l *lease, sent, ttl int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leases[l.name] == l && !l.ending && !e.tenure.Over(bootTime()) {
		e.until.Store(sent + core.Lasting(int64(e.lasts(ttl))))
	}
}

// endLease ends a lease that is not wanted any more.
func (e *Engine) endLease(l *lease) {
	l.stop()
	if id := l.id.Load(); id != 0 {
		ctx, cancel := context.WithTimeout(e.ctx, ownWithin)
		defer cancel()
		_, _ = pb.NewLeaseClient(e.o.Etcd).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id}) // it is gone, or runs out
	}
}
