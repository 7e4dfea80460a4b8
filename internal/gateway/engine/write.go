package engine

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

var (
	errClosed = status.Error(codes.Unavailable, "gateway: it is ending")
	// errUnknown is the end of a write of unknown outcome whose error is not etcd's.
	errUnknown = status.Error(codes.Unavailable, "gateway: etcd did not answer; the write may or may not have taken effect")
)

// request is a client's write, as an operation of a transaction.
type request struct {
	op *pb.RequestOp
	md metadata.MD // the client's
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

// Write executes a put, a deletion or a transaction. What only reads is not for it: then ok is false.
func (e *Engine) Write(ctx context.Context, op *pb.RequestOp) (answer *pb.ResponseOp, header *pb.ResponseHeader, ok bool, err error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	t := &core.Txn{Raw: &request{op, md}}
	writes(op, t)
	if len(t.Then)+len(t.Spans) == 0 {
		return nil, nil, false, nil
	}
	done := make(chan core.Reply, 1)
	e.mu.Lock()
	e.last++
	id := e.last
	e.replies[id] = done
	e.mu.Unlock()
	for i := range t.Then {
		e.sample(t.Then[i].Value)
		e.usage.wrote(&t.Then[i], e.mayFit(t.Then[i].Key, len(t.Then[i].Value)))
	}
	e.do(func(g *core.Gateway) { g.Txn(id, t) })
	select {
	case r := <-done:
		if r.Failure != core.None {
			if r.Err == nil {
				r.Err = errUnknown
			}
			return nil, nil, true, r.Err
		}
		raw := r.Raw.(*pb.TxnResponse)
		return raw.Responses[0], raw.Header, true, nil
	case <-ctx.Done(): // the write goes on
		return nil, nil, true, status.FromContextError(ctx.Err()).Err()
	case <-e.ctx.Done():
		return nil, nil, true, errClosed
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
	within := ownWithin
	if c.Request.Txn != nil {
		within = writeWithin
	}
	ctx, cancel := context.WithTimeout(e.ctx, within)
	defer cancel()
	r := e.execute(ctx, &c.Request, l)
	if e.ctx.Err() != nil {
		return
	}
	if r.Err != nil && c.Request.Txn == nil { // the core repeats it
		e.o.Log.Debug("a request of the gateway's own failed", "error", r.Err)
		if l != nil && l.gone(r.Err) {
			e.do(func(g *core.Gateway) { g.SessionLost(l.name) })
		}
		time.Sleep(again)
		r = &core.Result{Unknown: true, Err: r.Err}
	}
	e.do(func(g *core.Gateway) { g.Returned(c.ID, r) })
}

func (e *Engine) execute(ctx context.Context, r *core.Request, l *lease) *core.Result {
	var id int64
	for _, p := range r.Put {
		if p.Session {
			var err error
			if id, err = l.granted(ctx); err != nil {
				return &core.Result{Err: err}
			}
		}
	}
	txn := compile(r, id)
	if r.Txn != nil {
		ctx = metadata.NewOutgoingContext(ctx, r.Txn.Raw.(*request).md)
	}
	answer, err := pb.NewKVClient(e.o.Etcd).Txn(ctx, txn)
	if err != nil {
		return &core.Result{Unknown: uncertain(err), Err: err}
	}
	e.Saw(answer.Header)
	return e.result(r, answer)
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
