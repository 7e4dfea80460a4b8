package engine

import (
	"bytes"
	"cmp"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// executeClients executes a client's transaction, or a part of it, once.
func (e *Engine) executeClients(ctx context.Context, r *core.Request) *core.Result {
	c := r.Txn.Raw.(*request)
	ctx = metadata.NewOutgoingContext(ctx, c.md)
	if c.receive != nil {
		ctx = WithReceive(ctx, c.receive)
	}
	if r.Part == core.Outcome {
		return e.outcome(ctx, c.op.GetRequestTxn())
	}
	conditions, ops := c.part(r)
	apart := r.Part == core.Whole && len(c.op.GetRequestTxn().GetCompare()) > 0
	f, answer, err := e.txns.attempt(ctx, c, conditions, ops, reads(r), apart)
	switch {
	case f == nil && err == nil:
		return &core.Result{Err: rpctypes.ErrGRPCTooManyOps, TooMany: true}
	case err != nil:
		return &core.Result{Unknown: uncertain(err), Err: err}
	}
	e.Saw(answer.Header)
	return e.written(r, f, answer)
}

// part returns the conditions and the operations of a part of a client's transaction.
func (c *request) part(r *core.Request) (conditions []*pb.Compare, ops []*pb.RequestOp) {
	for i := range r.If {
		conditions = append(conditions, compare(&r.If[i]))
	}
	switch t := c.op.GetRequestTxn(); r.Part {
	case core.Then:
		return append(conditions, t.GetCompare()...), t.GetSuccess()
	case core.Else:
		return conditions, t.GetFailure()
	}
	return conditions, []*pb.RequestOp{c.op}
}

// written is the result of a part of a client's transaction.
func (e *Engine) written(r *core.Request, f *form, t *pb.TxnResponse) *core.Result {
	answers, behind := f.answers(t)
	result := &core.Result{Held: t.Succeeded, Rev: t.Header.Revision, KVs: make(map[string]core.KV), Unread: f.unread}
	if !t.Succeeded {
		return result
	}
	whole := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{
		Header: t.Header, Succeeded: r.Part == core.Then, Responses: answers,
	}}}
	if r.Part == core.Whole {
		whole = answers[0]
	}
	result.Succeeded, result.Raw = whole.GetResponseTxn().GetSucceeded(), written{whole, t.Header}
	for _, op := range behind {
		e.take(result, op.GetResponseRange().GetKvs())
	}
	return result
}

// outcome finds out whether the conditions of a transaction hold. If one does not, it returns a condition under which that stays so.
func (e *Engine) outcome(ctx context.Context, t *pb.TxnRequest) *core.Result {
	look := &pb.TxnRequest{Compare: t.Compare}
	for _, c := range t.Compare {
		look.Failure = append(look.Failure, read(&pb.RangeRequest{
			Key: c.Key, RangeEnd: c.RangeEnd, KeysOnly: c.Target != pb.Compare_VALUE,
		}))
	}
	answer, err := pb.NewKVClient(e.o.Etcd).Txn(ctx, look)
	if err != nil {
		return &core.Result{Err: err} // it only reads
	}
	e.Saw(answer.Header)
	result := &core.Result{Held: true, Succeeded: answer.Succeeded, Rev: answer.Header.Revision}
	if answer.Succeeded {
		return result
	}
	for i, c := range t.Compare {
		if pin, fails := failing(c, answer.Responses[i].GetResponseRange().GetKvs()); fails {
			result.Pin = []core.Cond{pin}
			return result
		}
	}
	return &core.Result{Err: status.Error(codes.Internal, "gateway: etcd says that a condition does not hold, and each of them does")}
}

// failing reports whether a condition does not hold for the keys that it names, and under which condition that stays so.
func failing(c *pb.Compare, kvs []*mvccpb.KeyValue) (pin core.Cond, fails bool) {
	if len(kvs) == 0 {
		pin = core.Cond{Key: string(c.Key), End: string(c.RangeEnd), Kind: core.CreateIs}
		return pin, c.Target == pb.Compare_VALUE || !holds(c, new(mvccpb.KeyValue))
	}
	for _, kv := range kvs {
		if !holds(c, kv) {
			return core.Cond{Key: string(kv.Key), Kind: core.ModIs, Rev: kv.ModRevision}, true
		}
	}
	return pin, false
}

// holds evaluates a condition as etcd does.
func holds(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	result := 0
	switch c.Target {
	case pb.Compare_VALUE:
		result = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		result = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		result = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		result = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		result = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return result == 0
	case pb.Compare_NOT_EQUAL:
		return result != 0
	case pb.Compare_GREATER:
		return result > 0
	case pb.Compare_LESS:
		return result < 0
	}
	return true
}
