package engine

import (
	"context"
	"errors"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// path is what a transaction executes, as its conditions were at a revision.
type path struct {
	rev    int64
	held   bool          // the conditions of the outermost transaction
	pins   []*pb.Compare // while these hold, it executes that
	ops    []*pb.RequestOp
	nested map[*pb.TxnRequest]bool // transactions among ops: whether the conditions held that they do not have any more
}

// follow finds out what a transaction executes. If the branches fit, and read at no revision of their own, transactions in
// them keep their conditions.
func (x *Txns) follow(ctx context.Context, c *request) error {
	t, limit := c.op.GetRequestTxn(), int(x.most.Load())
	if c.admitted {
		limit = max(limit, c.own)
	}
	conditions := append([]*pb.Compare{nothing}, t.GetCompare()...) // the guard's place
	deep := checkedForm(conditions, t.GetSuccess(), nil, limit).needs > limit || readsAfter([]*pb.RequestOp{c.op}, 0) ||
		checkedForm([]*pb.Compare{nothing, nothing}, t.GetFailure(), nil, limit).needs > limit
	p := &pathfinder{deep: deep, first: make(map[*pb.TxnRequest]int), path: &path{nested: make(map[*pb.TxnRequest]bool)}}
	p.list(t)
	f := formOf(nil, looks(p.conditions), nil, limit)
	answer, err := x.kv.Txn(ctx, f.txn)
	if f.needs <= limit && x.learns(c, f, err) {
		return x.follow(ctx, c)
	}
	if err != nil {
		return err
	}
	p.answers, _ = f.answers(answer)
	if len(p.answers) != len(p.conditions) {
		return errors.New("etcd did not answer whether conditions hold")
	}
	c.path, p.path.rev = p.path, answer.Header.Revision
	p.path.held, p.path.ops = p.branch(t)
	return nil
}

// looks returns operations that find out which conditions hold. Each reads the keys of one that does not.
func looks(conditions []*pb.Compare) (ops []*pb.RequestOp) {
	for _, c := range conditions {
		keys := read(&pb.RangeRequest{
			Key: c.Key, RangeEnd: c.RangeEnd, KeysOnly: c.Target != pb.Compare_VALUE || len(c.RangeEnd) == 0,
		})
		ops = append(ops, txnOp(&pb.TxnRequest{Compare: []*pb.Compare{c}, Failure: []*pb.RequestOp{keys}}))
	}
	return ops
}

// pathfinder makes a path of the answers to [looks].
type pathfinder struct {
	deep       bool // also of the transactions in the outermost one
	conditions []*pb.Compare
	first      map[*pb.TxnRequest]int // of conditions
	answers    []*pb.ResponseOp
	path       *path
}

func (p *pathfinder) list(t *pb.TxnRequest) {
	p.first[t] = len(p.conditions)
	p.conditions = append(p.conditions, t.GetCompare()...)
	if p.deep {
		for _, op := range slices.Concat(t.GetSuccess(), t.GetFailure()) {
			if inner := op.GetRequestTxn(); inner != nil {
				p.list(inner)
			}
		}
	}
}

func (p *pathfinder) branch(t *pb.TxnRequest) (held bool, ops []*pb.RequestOp) {
	ops, first := t.GetSuccess(), p.first[t]
	failed := slices.IndexFunc(p.answers[first:first+len(t.GetCompare())], func(look *pb.ResponseOp) bool {
		return !look.GetResponseTxn().GetSucceeded()
	})
	if held = failed < 0; held {
		p.path.pins = append(p.path.pins, t.GetCompare()...)
	} else {
		var read *pb.RangeResponse
		if answer := only(p.answers[first+failed].GetResponseTxn()); answer != nil {
			read = answer.GetResponseRange()
		}
		pin := pinOf(t.Compare[failed], read.GetKvs())
		p.path.pins = append(p.path.pins, compare(&pin))
		ops = t.GetFailure()
	}
	if !p.deep {
		return held, ops
	}
	followed := make([]*pb.RequestOp, len(ops))
	for i, op := range ops {
		if followed[i] = op; op.GetRequestTxn() != nil {
			inner := new(pb.TxnRequest)
			p.path.nested[inner], inner.Success = p.branch(op.GetRequestTxn())
			followed[i] = txnOp(inner)
		}
	}
	return held, followed
}

// restore restores, in the answers to the operations, which conditions held.
func (p *path) restore(answers []*pb.ResponseOp) { p.restoreAll(p.ops, answers) }

func (p *path) restoreAll(ops []*pb.RequestOp, answers []*pb.ResponseOp) {
	for i, op := range ops[:min(len(ops), len(answers))] {
		held, followed := p.nested[op.GetRequestTxn()]
		if inner := answers[i].GetResponseTxn(); followed && inner != nil {
			inner.Succeeded = held
			p.restoreAll(op.GetRequestTxn().Success, inner.Responses)
		}
	}
}

// A transaction has a place for as many conditions as etcd allows, and none for the guard beside them. As operations
// any number has: a transaction for some of them, whose other branch etcd refuses. Then it refuses everything.

// nothing is a condition on a key that does not exist.
var nothing = compare(&core.Cond{Key: string(ownEmpty), Kind: core.CreateIs})

// errNotHeld says that conditions which are operations did not hold. Nothing was executed.
var errNotHeld = errors.New("the conditions do not hold")

// checkedForm returns a form whose conditions are operations, with as few transactions for them as fit into a limit.
func checkedForm(conditions []*pb.Compare, ops, reads []*pb.RequestOp, limit int) *form {
	for size := len(conditions); ; size /= 2 {
		var checks []*pb.RequestOp
		for some := range slices.Chunk(conditions, size) {
			future := read(&pb.RangeRequest{Key: some[0].Key, CountOnly: true, Revision: math.MaxInt64})
			checks = append(checks, txnOp(&pb.TxnRequest{Compare: some, Failure: []*pb.RequestOp{future}}))
		}
		f := formOf(nil, slices.Concat(checks, ops), reads, limit)
		if f.checks, f.ops = len(checks), len(ops); f.needs <= limit || size == 1 {
			return f
		}
	}
}

// explain returns the error of a transaction whose conditions are operations.
//
// etcd refuses the first operation that it cannot execute, before 3.6 the puts first. So another error than that of the
// conditions may be true of operations that should not have been executed: it counts if nothing was written meanwhile.
func (x *Txns) explain(ctx context.Context, c *request, refused error) error {
	known := rpctypes.Error(refused)
	switch {
	case errors.Is(known, rpctypes.ErrFutureRev):
		if c.path == nil || !readsAfter(c.path.ops, c.path.rev) {
			return errNotHeld
		}
		return refused // etcd would have refused it at that revision
	case !errors.Is(known, rpctypes.ErrKeyNotFound) && !errors.Is(known, rpctypes.ErrLeaseNotFound) || c.path == nil:
		return refused
	}
	before := c.path
	if err := x.follow(ctx, c); err != nil {
		return err
	}
	if c.path.rev != before.rev {
		return errNotHeld
	}
	return refused
}

// readsAfter reports whether one of the operations reads at a revision after another one.
func readsAfter(ops []*pb.RequestOp, rev int64) bool {
	return slices.ContainsFunc(ops, func(op *pb.RequestOp) bool {
		t := op.GetRequestTxn()
		return op.GetRequestRange().GetRevision() > rev || readsAfter(t.GetSuccess(), rev) || readsAfter(t.GetFailure(), rev)
	})
}
