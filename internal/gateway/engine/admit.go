package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// Txns executes transactions that need more of etcd's limit of operations than what the client sent.
type Txns struct {
	kv   pb.KVClient
	most atomic.Int64 // etcd allows at least so many, as far as is known
}

// NewTxns executes transactions over a connection. Their answers are received as [WithReceive] says.
func NewTxns(conn grpc.ClientConnInterface) *Txns {
	x := &Txns{kv: pb.NewKVClient(receiving{conn})}
	x.most.Store(maxTxnOps)
	return x
}

// Execute has etcd execute a transaction in place of what a client sent.
func (x *Txns) Execute(ctx context.Context, t *pb.TxnRequest, original *pb.RequestOp) (*pb.TxnResponse, error) {
	if need(t) <= int(x.most.Load()) && original.GetRequestTxn() == nil {
		return x.kv.Txn(ctx, t)
	}
	c := newRequest(ctx, txnOp(t), original)
	f, answer, err := x.attempt(ctx, c, nil, []*pb.RequestOp{c.op}, nil, true)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return x.inSteps(ctx, c)
	}
	answers, _ := f.answers(answer)
	inner := answers[0].GetResponseTxn()
	inner.Header = answer.Header
	return inner, nil
}

// inSteps finds out what a transaction executes, and then executes that.
func (x *Txns) inSteps(ctx context.Context, c *request) (*pb.TxnResponse, error) {
	for range core.MaxTurns {
		if err := x.follow(ctx, c); err != nil {
			return nil, err
		}
		p := c.path
		f, answer, err := x.attempt(ctx, c, p.pins, p.ops, nil, false)
		switch {
		case errors.Is(err, errNotHeld):
		case err != nil:
			return nil, err
		case answer.Succeeded:
			answers, _ := f.answers(answer)
			p.restore(answers)
			return &pb.TxnResponse{Header: answer.Header, Succeeded: p.held, Responses: answers}, nil
		}
	}
	return nil, errBusy
}

// attempt has etcd execute operations under conditions, in the first form that fits. If none fits, etcd may allow more
// operations than is known, and is asked; nil: not if the operations may be executed apart. [errNotHeld]: the conditions
// did not hold, which the form does not answer.
func (x *Txns) attempt(ctx context.Context, c *request, conditions []*pb.Compare, ops, reads []*pb.RequestOp, apart bool) (*form, *pb.TxnResponse, error) {
	for {
		limit := int(x.most.Load())
		if c.admitted {
			limit = max(limit, c.own)
		}
		f := formOf(conditions, ops, reads, limit)
		if (f.list != nil || c.own > limit || c.op != c.original) && !c.admitted {
			if err := x.admit(ctx, c); err != nil {
				return nil, nil, err
			}
			continue
		}
		fits := f.needs <= limit
		if !fits && apart {
			return nil, nil, nil
		}
		checks := !fits && len(conditions) > 0
		if checks {
			f = checkedForm(conditions, ops, reads, limit)
			fits = f.needs <= limit
		}
		answer, err := x.kv.Txn(ctx, f.txn)
		if checks {
			err = x.explain(ctx, c, err)
		}
		if fits && x.learns(c, f, err) {
			continue
		}
		return f, answer, err
	}
}

// learns takes etcd's answer to a form that fits into the limit that is known, and reports whether etcd has refused it,
// executing nothing, because its limit is lower.
func (x *Txns) learns(c *request, f *form, err error) bool {
	if f.needs <= max(c.own, 1) || !errors.Is(rpctypes.Error(err), rpctypes.ErrTooManyOps) {
		return false
	}
	x.most.Store(int64(f.needs - 1))
	return true
}

// admit has etcd check a client's transaction that is to be executed in another arrangement: its limit of operations, and that
// no two operations write the same key. etcd executes none of them.
func (x *Txns) admit(ctx context.Context, c *request) error {
	t := c.original.GetRequestTxn()
	var twice error
	for i, list := range [][]*pb.RequestOp{t.GetSuccess(), t.GetFailure()} {
		if len(list) == 0 {
			continue
		}
		other := [][]*pb.RequestOp{t.GetFailure(), t.GetSuccess()}[i]
		check := &pb.TxnRequest{Success: slices.Repeat([]*pb.RequestOp{readNothing()}, max(len(t.Compare), len(other))), Failure: list}
		_, err := x.kv.Txn(ctx, check)
		switch {
		case err == nil:
		case errors.Is(rpctypes.Error(err), rpctypes.ErrDuplicateKey): // etcd looks for that last
			twice = cmp.Or(twice, err)
		default:
			return err
		}
	}
	c.admitted = twice == nil
	return twice
}

// ownEmpty is a key that does not exist.
var ownEmpty = []byte(OwnPrefix + "-")
