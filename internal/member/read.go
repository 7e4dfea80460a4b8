package member

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/rpc"
)

// readPoint returns the point at which a read has to be answered, once this member has applied it. ok is false if etcd
// has to answer by ReadIndex. asked is the revision that the read names, or 0.
func (f *Front) readPoint(ctx context.Context, asked int64) (p core.Point, ok bool) {
	if p, ok := rpc.PointIn(ctx); ok {
		return p, true
	}
	p, why := f.ask(ctx)
	if why != None {
		f.count(why)
		return p, false
	}
	if asked > p.Revision {
		f.count(Future)
		return p, false
	}
	if !f.reach(ctx, p) {
		f.count(Behind)
		return p, false
	}
	return p, true
}

// ask asks the register for a read point.
func (f *Front) ask(ctx context.Context) (core.Point, Reason) {
	type answer struct {
		point core.Point
		why   Reason
	}
	asked := make(chan answer, 1)
	f.register.ReadPoint(func(p core.Point, why Reason) { asked <- answer{p, why} })
	select {
	case a := <-asked:
		return a.point, a.why
	case <-ctx.Done():
		return core.Point{}, Canceled
	}
}

// ahead asks for the read point of a call that has no goroutine. ok is false if the call has to wait for something
// else.
func (f *Front) ahead(then func(p core.Point, ok bool)) {
	f.register.ReadPoint(func(p core.Point, why Reason) {
		then(p, why == None && f.has(p) && !f.server.AuthStore().IsAuthEnabled())
	})
}

// has reports whether this member has applied a point.
func (f *Front) has(p core.Point) bool {
	return f.server.AppliedIndex() >= p.Index && f.server.KV().Rev() >= p.Revision
}

// reach waits until this member has applied a point, and reports whether it has.
func (f *Front) reach(ctx context.Context, p core.Point) bool {
	var late <-chan time.Time
	for {
		index := f.server.AppliedIndex()
		if index >= p.Index && f.server.KV().Rev() >= p.Revision {
			return true
		}
		if late == nil {
			timer := time.NewTimer(behindWithin)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-f.server.ApplyWait(max(p.Index, index+1)):
		case <-late:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// readRange answers a linearizable Range as of the read point. Whatever fails there is asked again in etcd's own way.
func (f *Front) readRange(ctx context.Context, r *pb.RangeRequest, handle grpc.UnaryHandler) (any, error) {
	if p, ok := f.readPoint(ctx, r.Revision); ok {
		answer, err := handle(ctx, at(r, p.Revision))
		if a, is := answer.(*pb.RangeResponse); is && err == nil {
			a.Header.Revision = p.Revision
			f.fast.Add(1)
			return answer, nil
		}
		f.count(Failed)
	}
	return f.show(ctx, pb.KV_Range_FullMethodName, r, handle)
}

// at returns a copy of a request that reads this member's store as it was at a revision, unless the request names one.
func at(r *pb.RangeRequest, revision int64) *pb.RangeRequest {
	r = proto.CloneOf(r)
	r.Serializable = true
	if r.Revision <= 0 {
		r.Revision = revision
	}
	return r
}

// needsReadIndex reports whether etcd answers a transaction after a round trip to its leader, and not through its log: it only
// reads, and not only what this member's store happens to have.
func needsReadIndex(t *pb.TxnRequest) bool {
	serializable := true
	for _, ops := range [][]*pb.RequestOp{t.Success, t.Failure} {
		for _, op := range ops {
			r := op.GetRequestRange()
			if r == nil {
				return false
			}
			serializable = serializable && r.Serializable
		}
	}
	return !serializable
}

// readTxn answers a transaction that only reads. Comparisons read the store as it is now. So a transaction with
// comparisons runs on the store once that has the read point, and its answer waits until its own revision may be shown.
func (f *Front) readTxn(ctx context.Context, t *pb.TxnRequest, handle grpc.UnaryHandler) (any, error) {
	p, ok := f.readPoint(ctx, newestAsked(t))
	if !ok {
		return f.show(ctx, pb.KV_Txn_FullMethodName, t, handle)
	}
	local := proto.CloneOf(t)
	exact := len(t.Compare) == 0
	for _, ops := range [][]*pb.RequestOp{local.Success, local.Failure} {
		for _, op := range ops {
			r := op.GetRequestRange()
			r.Serializable = true
			if exact && r.Revision <= 0 {
				r.Revision = p.Revision
			}
		}
	}
	answer, err := handle(ctx, local)
	a, is := answer.(*pb.TxnResponse)
	if !is || err != nil {
		f.count(Failed)
		return f.show(ctx, pb.KV_Txn_FullMethodName, t, handle)
	}
	f.fast.Add(1)
	if !exact {
		if hidden := f.reveal(ctx, core.Point{Revision: a.Header.Revision}); hidden != nil {
			return nil, hidden
		}
		return answer, nil
	}
	a.Header.Revision = p.Revision
	for _, op := range a.Responses {
		if h := op.GetResponseRange().GetHeader(); h != nil {
			h.Revision = p.Revision
		}
	}
	return answer, nil
}

// newestAsked returns the newest revision that a transaction names.
func newestAsked(t *pb.TxnRequest) (newest int64) {
	for _, ops := range [][]*pb.RequestOp{t.Success, t.Failure} {
		for _, op := range ops {
			newest = max(newest, op.GetRequestRange().GetRevision())
		}
	}
	return newest
}
