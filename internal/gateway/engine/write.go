package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/recovery"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

var (
	errClosed = status.Error(codes.Unavailable, "gateway: it is ending")
	// errUnknown is the end of a write of unknown outcome whose error is not etcd's.
	errUnknown = status.Error(codes.Unavailable, "gateway: etcd did not answer; the write may or may not have taken effect")
	errBusy    = status.Errorf(codes.Unavailable, "gateway: nothing was applied: %v", core.ErrTurns)
	// errDropped is the end of a write that nobody waits for.
	errDropped = errors.New("the client does not wait any more")
)

// request is a client's write, as an operation of a transaction.
type request struct {
	op       *pb.RequestOp
	original *pb.RequestOp // as the client sent it
	own      int           // the least --max-txn-ops with which etcd executes that
	admitted bool          // etcd has checked it
	path     *path         // of a transaction whose outcome was found out
	md       metadata.MD   // the client's
	receive  Receive       // its answer; nil: at once
	state    atomic.Int32
	results  chan *core.Result // of the call to etcd, the newest
}

// newRequest makes a request of an operation that a client sent, and of what is executed in its place.
func newRequest(ctx context.Context, op, original *pb.RequestOp) *request {
	md, _ := metadata.FromOutgoingContext(ctx)
	return &request{
		op: op, original: original, own: deepest([]*pb.RequestOp{original}), admitted: original.GetRequestTxn() == nil, md: md,
		receive: receiveOf(ctx), results: make(chan *core.Result, 1),
	}
}

// States of a request.
const (
	waiting = iota
	sent
	dropped // it will not be sent
)

// send reports whether the request may be sent to etcd.
func (r *request) send() bool {
	return r.state.CompareAndSwap(waiting, sent) || r.state.Load() == sent
}

// drop keeps the request from being sent; false: it was sent already.
func (r *request) drop() bool { return r.state.CompareAndSwap(waiting, dropped) }

// end notes the result of a call.
func (r *request) end(result *core.Result) {
	select {
	case <-r.results:
	default:
	}
	r.results <- result // of one call at a time
}

// written is what etcd answered to a write.
type written struct {
	Answer *pb.ResponseOp
	Header *pb.ResponseHeader
}

// writes takes a request apart: the keys and spans that it may write.
func writes(r *pb.RequestOp, t *core.Txn) {
	switch {
	case r.GetRequestPut() != nil:
		put := r.GetRequestPut()
		t.Then = append(t.Then, core.Write{Key: string(put.Key), Value: string(put.Value), Leased: put.Lease != 0})
	case r.GetRequestDeleteRange() != nil:
		d := r.GetRequestDeleteRange()
		if len(d.RangeEnd) > 0 {
			t.Spans = append(t.Spans, core.Span{From: string(d.Key), End: string(d.RangeEnd)})
		} else {
			t.Then = append(t.Then, core.Write{Key: string(d.Key), Delete: true})
		}
	case r.GetRequestTxn() != nil:
		for _, list := range [][]*pb.RequestOp{r.GetRequestTxn().Success, r.GetRequestTxn().Failure} {
			for _, op := range list {
				writes(op, t)
			}
		}
	}
}

// erases reports whether an operation is nothing but deletions.
func erases(op *pb.RequestOp) bool {
	if t := op.GetRequestTxn(); t != nil {
		return len(t.Compare)+len(t.Failure) == 0 && !slices.ContainsFunc(t.Success, func(op *pb.RequestOp) bool { return !erases(op) })
	}
	return op.GetRequestDeleteRange() != nil
}

// Write executes a put, a deletion or a transaction in place of what the client sent. What only reads is not for it: then
// ok is false.
func (e *Engine) Write(ctx context.Context, op, original *pb.RequestOp) (answer *pb.ResponseOp, header *pb.ResponseHeader, ok bool, err error) {
	r := newRequest(ctx, op, original)
	t := &core.Txn{Raw: r, Erases: erases(op)}
	writes(op, t)
	if len(t.Then)+len(t.Spans) == 0 {
		return nil, nil, false, nil
	}
	w, err := e.write(ctx, t, r)
	return w.Answer, w.Header, true, err
}

func (e *Engine) write(ctx context.Context, t *core.Txn, r *request) (written, error) {
	var late <-chan time.Time
	if !e.serving() {
		if w, done, err := e.writeUnplaced(ctx, r); done {
			return w, err
		}
		timer := time.NewTimer(servingWithin)
		defer timer.Stop()
		late = timer.C
	}
	if r.own > int(e.txns.most.Load()) && !r.admitted { // before other reads miss for its INTENTs
		if err := e.txns.admit(ctx, r); err != nil {
			return written{}, e.judge(ctx, r.op, err)
		}
	}
	e.count(t)
	done := make(chan core.Reply, 1)
	e.mu.Lock()
	e.last++
	id := e.last
	e.replies[id] = done
	e.mu.Unlock()
	e.do(func(g *core.Gateway) { g.Txn(id, t) })
	for {
		select {
		case reply := <-done:
			switch {
			case reply.Failure == core.None:
				return reply.Raw.(written), nil
			case reply.Err == nil:
				return written{}, errUnknown
			case errors.Is(reply.Err, core.ErrTurns):
				return written{}, errBusy
			}
			return written{}, e.judge(ctx, r.op, reply.Err)
		case <-ctx.Done(): // if it was sent, it goes on
			r.drop()
			return written{}, contextError(ctx)
		case <-late:
			if r.drop() {
				return written{}, e.trouble.status()
			}
		case <-e.ctx.Done():
			return e.cutOff(ctx, r)
		}
	}
}

func contextError(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }

// count counts the keys that a transaction may write.
func (e *Engine) count(t *core.Txn) {
	if !e.isIdentified() {
		return
	}
	e.places.asked.writes.Add(1)
	for i := range t.Then {
		e.sample(t.Then[i].Value)
		e.usage.wrote(&t.Then[i], e.mayFit(t.Then[i].Key, len(t.Then[i].Value)))
	}
}

const (
	// writeWithin is when the outcome of a client's write counts as unknown: etcd itself gives up sooner.
	writeWithin = 15 * time.Second
	// ownWithin bounds the gateway's own requests.
	ownWithin = 3 * time.Second
	// again is the pause before one of them is repeated.
	again = 30 * time.Millisecond
)

// callEtcd executes a request of the core, once.
func (e *Engine) callEtcd(c core.EtcdCall, l *lease) {
	if c.Request.Txn != nil {
		e.callClients(c)
		return
	}
	if l != nil && e.lapsed(l) {
		retry.Sleep(e.ctx, again)
		e.do(func(g *core.Gateway) { g.Returned(c.ID, &core.Result{Unknown: true}) })
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, ownWithin)
	defer cancel()
	r := e.execute(ctx, &c.Request, l)
	if e.ctx.Err() != nil {
		return
	}
	if r.Err != nil { // the core repeats it
		if e.trouble.note(r.Err) {
			e.o.Log.Warn("a request of the gateway's own failed; it is repeated", "error", r.Err)
		}
		if l != nil && noLease(r.Err) {
			e.do(func(g *core.Gateway) { g.SessionLost(l.name) })
		}
		retry.Sleep(e.ctx, againAfter(r.Err))
		r = &core.Result{Unknown: true, Err: r.Err}
	}
	e.do(func(g *core.Gateway) { g.Returned(c.ID, r) })
}

// callClients executes a client's transaction, once.
func (e *Engine) callClients(c core.EtcdCall) {
	client, looks := c.Request.Txn.Raw.(*request), c.Request.Part == core.Outcome
	r := &core.Result{Err: errDropped}
	if e.ctx.Err() == nil && (looks && client.state.Load() != dropped || !looks && client.send()) {
		ctx, cancel := context.WithTimeout(e.ctx, writeWithin)
		defer cancel()
		err := recovery.Do("a write", func() error { r = e.executeClients(ctx, &c.Request); return nil })
		if err != nil {
			r = &core.Result{Unknown: !looks, Err: err}
		}
		switch {
		case looks:
		case r.TooMany, r.Err == nil && !r.Held: // nothing was applied
			client.state.Store(waiting)
			if e.ctx.Err() != nil && client.drop() { // cutOff waits for a result
				client.end(&core.Result{Err: errDropped})
			}
		default:
			client.end(r)
		}
	}
	if e.ctx.Err() != nil {
		return
	}
	e.do(func(g *core.Gateway) { g.Returned(c.ID, r) })
}

// againAfter is the pause before a request of the gateway's own is repeated. If etcd refuses it by its length, or for want
// of space, it will do so for a while.
func againAfter(err error) time.Duration {
	if code := status.Code(err); code == codes.InvalidArgument || code == codes.ResourceExhausted {
		return time.Second
	}
	return again
}

func (e *Engine) execute(ctx context.Context, r *core.Request, l *lease) *core.Result {
	if r.Leases != 0 {
		return sessionLeases(ctx, e.o.Etcd, r.Leases)
	}
	var id int64
	others := false
	for _, p := range r.Put {
		others = others || p.Lease != 0
		if p.Session {
			var err error
			if id, err = l.granted(ctx); err != nil {
				return &core.Result{Err: err}
			}
		}
	}
	e.own.count(r)
	answer, err := pb.NewKVClient(e.o.Etcd).Txn(ctx, compile(r, id))
	switch {
	case others && noLease(err):
		return &core.Result{NoLease: true}
	case err != nil:
		return &core.Result{Unknown: uncertain(err), Err: err}
	}
	e.Saw(answer.Header)
	return e.result(answer)
}

// uncertain reports whether a request with this error may have been executed, or may be yet.
func uncertain(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition,
		codes.OutOfRange, codes.ResourceExhausted, codes.Unimplemented:
		return false
	}
	return !errors.Is(err, errNoLease)
}
