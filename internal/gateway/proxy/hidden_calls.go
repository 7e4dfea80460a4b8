package proxy

import (
	"context"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// Methods whose answers may show the gateways' own keys.
const (
	methodWatch       = "/etcdserverpb.Watch/Watch"
	methodLeaseLeases = "/etcdserverpb.Lease/LeaseLeases"
	methodLeaseRevoke = "/etcdserverpb.Lease/LeaseRevoke"
)

// transact has etcd execute a transaction in place of a client's read.
func (f *forwarder) transact(ctx context.Context, t *pb.TxnRequest, original *pb.RequestOp) (*pb.TxnResponse, error) {
	answer, err := f.txns.Execute(ctx, t, original)
	if err != nil {
		return nil, err
	}
	return answer, f.show(ctx, core.Answers, answer.GetHeader().GetRevision())
}

// show waits until a message with a revision may be shown. Then streams of watches may be told their progress up to it.
func (f *forwarder) show(ctx context.Context, m core.Message, rev int64) error {
	err := f.mayShow(ctx, m, rev)
	if err == nil {
		f.shown.Raise(rev)
	}
	return err
}

func (f *forwarder) mayShow(ctx context.Context, m core.Message, rev int64) error {
	switch {
	case rev == 0:
		return nil
	case f.ended != nil:
		_, err := f.ended.Bypassed(ctx)
		return err
	case f.cache == nil:
		return nil
	}
	return f.cache.Reveal(ctx, m, rev)
}

// around executes a call beside the gateways' own keys, without the cache. handled is false if it covers none.
func (f *forwarder) around(ctx context.Context, method string, in *frame, down grpc.ServerStream) (handled bool, err error) {
	op := new(pb.RequestOp)
	var r any
	switch method {
	case methodRange:
		o := &pb.RequestOp_RequestRange{RequestRange: new(pb.RangeRequest)}
		op.Request, r = o, o.RequestRange
	case methodDeleteRange:
		o := &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: new(pb.DeleteRangeRequest)}
		op.Request, r = o, o.RequestDeleteRange
	case methodTxn:
		o := &pb.RequestOp_RequestTxn{RequestTxn: new(pb.TxnRequest)}
		op.Request, r = o, o.RequestTxn
	case methodLeaseLeases:
		return true, f.leases(ctx, in, down)
	default:
		return false, nil
	}
	if err := f.codec.Unmarshal(in.data, r); err != nil {
		return true, undecodable(err)
	}
	tellRanges(down, op)
	split, join := splitOp(op)
	if split == nil {
		return false, nil
	}
	answer, err := f.transact(ctx, split.GetRequestTxn(), op)
	if err != nil {
		return true, err
	}
	whole := join(&pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: answer}})
	return true, sendWhole(whole, answer.GetHeader(), down)
}

// sendWhole sends the answer to an operation as that to a call.
func sendWhole(answer *pb.ResponseOp, header *pb.ResponseHeader, down grpc.ServerStream) error {
	switch {
	case answer.GetResponseRange() != nil:
		answer.GetResponseRange().Header = header
		return down.SendMsg(answer.GetResponseRange())
	case answer.GetResponsePut() != nil:
		answer.GetResponsePut().Header = header
		return down.SendMsg(answer.GetResponsePut())
	case answer.GetResponseDeleteRange() != nil:
		answer.GetResponseDeleteRange().Header = header
		return down.SendMsg(answer.GetResponseDeleteRange())
	}
	answer.GetResponseTxn().Header = header
	return down.SendMsg(answer.GetResponseTxn())
}

// rangeAround executes a range without the gateways' own keys.
func (f *forwarder) rangeAround(ctx context.Context, r *pb.RangeRequest, t *pb.TxnRequest) (*pb.RangeResponse, error) {
	answer, err := f.transact(ctx, t, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}})
	if err != nil {
		return nil, err
	}
	whole := joinRanges(r, answer.GetResponses())
	whole.Header = answer.GetHeader()
	return whole, nil
}

// leases lists the leases that are not those of gateways.
func (f *forwarder) leases(ctx context.Context, in *frame, down grpc.ServerStream) error {
	var out frame
	defer out.free()
	if err := f.invoke(ctx, methodLeaseLeases, in, &out, down); err != nil {
		return err
	}
	var answer pb.LeaseLeasesResponse
	if f.codec.Unmarshal(out.data, &answer) != nil {
		return f.answer(ctx, methodLeaseLeases, &out, down)
	}
	if err := f.show(ctx, core.Answers, answer.GetHeader().GetRevision()); err != nil {
		return err
	}
	withoutOwnLeases(&answer)
	return down.SendMsg(&answer)
}

// rangeStream answers a range that covers the gateways' own keys with one message. Others are passed on, and so is what
// etcd refuses to stream.
func (f *forwarder) rangeStream(ctx context.Context, down grpc.ServerStream) error {
	var in frame
	if err := down.RecvMsg(&in); err != nil {
		return err
	}
	defer in.free()
	var r pb.RangeRequest
	if f.codec.Unmarshal(in.data, &r) == nil && txn.IsDefaultOrdering(r.SortTarget, r.SortOrder) && !txn.HasRevisionFilters(&r) {
		if t := splitRange(&r); t != nil {
			whole, err := f.rangeAround(inTurn(ctx, down), &r, t)
			if err != nil {
				return err
			}
			return down.SendMsg(&pb.RangeStreamResponse{RangeResponse: whole})
		}
	}
	return f.many(ctx, methodRangeStream, &received{ServerStream: down, first: &in})
}

// received is a stream whose first message has been received already.
type received struct {
	grpc.ServerStream
	first *frame
}

// RecvMsg implements [grpc.ServerStream].
func (r *received) RecvMsg(m any) error {
	f, ok := m.(*frame)
	if r.first == nil || !ok {
		return r.ServerStream.RecvMsg(m)
	}
	r.first.data.Ref()
	f.data, r.first = r.first.data, nil
	return nil
}

// watcher is a stream of watches without the gateways' own events.
type watcher struct {
	grpc.ServerStream
	codec             codec
	covers, fragments atomic.Bool // a watch covers the gateways' own keys, or asks for fragments
}

// RecvMsg implements [grpc.ServerStream].
func (w *watcher) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	in, ok := m.(*frame)
	if err != nil || !ok {
		return err
	}
	var r pb.WatchRequest
	if w.codec.Unmarshal(in.data, &r) != nil {
		return nil // etcd says what is wrong
	}
	if c := r.GetCreateRequest(); c != nil {
		if c.Fragment {
			w.fragments.Store(true)
		}
		if _, covers := around(c.Key, c.RangeEnd); covers {
			w.covers.Store(true)
		}
	}
	return nil
}

// SendMsg implements [grpc.ServerStream].
func (w *watcher) SendMsg(m any) error {
	out, ok := m.(*frame)
	if !ok || !w.covers.Load() {
		return w.ServerStream.SendMsg(m)
	}
	var a pb.WatchResponse
	switch {
	case w.codec.Unmarshal(out.data, &a) != nil:
		return w.ServerStream.SendMsg(m)
	case withoutOwn(&a, w.fragments.Load()):
		return w.ServerStream.SendMsg(&a)
	}
	return nil
}
