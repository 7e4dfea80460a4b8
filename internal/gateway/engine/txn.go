package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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
		return e.outcome(ctx, c)
	}
	conditions, ops := c.part(r)
	apart := r.Part == core.Whole && c.op.GetRequestTxn() != nil
	f, answer, err := e.txns.attempt(ctx, c, conditions, ops, reads(r), apart)
	switch {
	case f == nil && err == nil:
		return &core.Result{Err: rpctypes.ErrGRPCTooManyOps, TooMany: true}
	case errors.Is(err, errNotHeld):
		return new(core.Result)
	case errors.Is(rpctypes.Error(err), rpctypes.ErrTooManyOps):
		return &core.Result{Err: e.txns.refuse(ctx, c)}
	case err != nil:
		return &core.Result{Unknown: uncertain(err), Err: err}
	}
	e.Saw(answer.Header)
	return e.written(r, f, answer)
}

// refuse returns the error of a transaction of which etcd, that executed nothing, says that it has too many operations.
func (x *Txns) refuse(ctx context.Context, c *request) error {
	if !c.admitted {
		if err := x.admit(ctx, c); err != nil {
			return err
		}
	}
	return errNoPlace // etcd would execute it without the guard
}

// errNoPlace begins as etcd's error does.
var errNoPlace = status.Error(codes.InvalidArgument, "etcdserver: too many operations in txn request: gateways need a "+
	"place for two conditions of their own; send two conditions less, or raise the members' limit of operations")

// part returns the conditions and the operations of a part of a client's transaction.
func (c *request) part(r *core.Request) (conditions []*pb.Compare, ops []*pb.RequestOp) {
	for i := range r.If {
		conditions = append(conditions, compare(&r.If[i]))
	}
	if r.Part == core.Whole {
		return conditions, []*pb.RequestOp{c.op}
	}
	return conditions, c.path.ops
}

// written is the result of a part of a client's transaction.
func (e *Engine) written(r *core.Request, f *form, t *pb.TxnResponse) *core.Result {
	answers, behind := f.answers(t)
	if r.Part != core.Whole {
		r.Txn.Raw.(*request).path.restore(answers)
	}
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

// outcome finds out which conditions of a client's transaction hold.
func (e *Engine) outcome(ctx context.Context, c *request) *core.Result {
	if err := e.txns.follow(ctx, c); err != nil {
		return &core.Result{Err: err} // it only reads
	}
	result := &core.Result{Held: true, Succeeded: c.path.held, Rev: c.path.rev}
	for _, pin := range c.path.pins {
		result.Pin = append(result.Pin, core.Cond{Raw: pin})
	}
	return result
}

// pinOf returns a condition under which a condition that fails stays so. Its keys are those that it names, without their values if it
// names one.
func pinOf(c *pb.Compare, kvs []*mvccpb.KeyValue) core.Cond {
	absent := core.Cond{Key: string(c.Key), End: string(c.RangeEnd), Kind: core.CreateIs}
	if len(c.RangeEnd) == 0 {
		if not := negated(c); not != nil && (len(kvs) > 0 || c.Target != pb.Compare_VALUE) { // etcd compares no value that is not there
			return core.Cond{Raw: not}
		}
	}
	for _, kv := range kvs {
		if len(c.RangeEnd) == 0 || !holds(c, kv) {
			return core.Cond{Key: string(kv.Key), Kind: core.ModIs, Rev: kv.ModRevision}
		}
	}
	return absent
}

// negated returns the condition that holds where another on one key does not, if etcd has it; else nil.
func negated(c *pb.Compare) *pb.Compare {
	n := proto.CloneOf(c)
	switch c.Result {
	case pb.Compare_EQUAL:
		n.Result = pb.Compare_NOT_EQUAL
	case pb.Compare_NOT_EQUAL:
		n.Result = pb.Compare_EQUAL
	case pb.Compare_GREATER: // at most
		if !moved(n, 1) {
			return nil
		}
		n.Result = pb.Compare_LESS
	case pb.Compare_LESS: // at least
		if !moved(n, -1) {
			return nil
		}
		n.Result = pb.Compare_GREATER
	default:
		return nil
	}
	return n
}

// moved adds to the number that a condition names, and reports whether there is one and it has room.
func moved(c *pb.Compare, by int64) bool {
	var to *int64
	switch c.Target {
	case pb.Compare_CREATE:
		if u, ok := c.TargetUnion.(*pb.Compare_CreateRevision); ok {
			to = &u.CreateRevision
		}
	case pb.Compare_MOD:
		if u, ok := c.TargetUnion.(*pb.Compare_ModRevision); ok {
			to = &u.ModRevision
		}
	case pb.Compare_VERSION:
		if u, ok := c.TargetUnion.(*pb.Compare_Version); ok {
			to = &u.Version
		}
	case pb.Compare_LEASE:
		if u, ok := c.TargetUnion.(*pb.Compare_Lease); ok {
			to = &u.Lease
		}
	}
	if to == nil || *to == math.MaxInt64 || *to == math.MinInt64 {
		return false
	}
	*to += by
	return true
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
