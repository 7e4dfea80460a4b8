package engine

import (
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// etcd allows a transaction at most --max-txn-ops conditions, operations of the one branch and of the other, and a nested
// transaction only what the largest of these numbers leaves. The guard of a write, the reads behind it and the ranges
// around the gateways' own keys take from this. An arrangement in groups needs less: 128 operations are 11 nested
// transactions of 12. It changes nothing else, since operations are executed in order and conditions are those before
// the whole transaction.

// maxTxnOps is etcd's default for --max-txn-ops.
const maxTxnOps = 128

// need is the least --max-txn-ops with which etcd executes a transaction.
func need(t *pb.TxnRequest) int {
	return max(len(t.GetCompare()), len(t.GetSuccess()), len(t.GetFailure())) + max(deepest(t.GetSuccess()), deepest(t.GetFailure()))
}

// deepest is the most that the transactions among operations need.
func deepest(ops []*pb.RequestOp) (most int) {
	for _, op := range ops {
		if t := op.GetRequestTxn(); t != nil {
			most = max(most, need(t))
		}
	}
	return most
}

// restore makes, of answers to arranged operations, the answer to one operation as it was.
type restore func(next func() *pb.ResponseOp) *pb.ResponseOp

// arranged is a list of operations in another arrangement.
type arranged struct {
	ops      []*pb.RequestOp
	grouped  bool      // each of ops is a group
	restores []restore // for each of the operations as they were
}

// arrange arranges lists of operations, the branches of a transaction with a number of conditions, so that they need little.
func arrange(conditions int, lists ...[]*pb.RequestOp) []*arranged {
	all, lengths := make([]*arranged, len(lists)), make([]int, len(lists))
	for i, ops := range lists {
		a, apart := new(arranged), slices.ContainsFunc(ops, deletesNested)
		for _, op := range ops {
			var r restore
			a.ops, r = inline(a.ops, op, apart)
			a.restores = append(a.restores, r)
		}
		all[i], lengths[i] = a, len(a.ops)
	}
	width := bestWidth(conditions, lengths)
	for _, a := range all {
		size := groupSize(len(a.ops), width)
		if size == 0 {
			continue
		}
		flat := a.ops
		a.ops, a.grouped = nil, true
		for group := range slices.Chunk(flat, size) {
			a.ops = append(a.ops, txnOp(&pb.TxnRequest{Success: group}))
		}
	}
	return all
}

// bestWidth is the width of a level, from the number of conditions on, with which lists of these lengths need least.
func bestWidth(conditions int, lengths []int) (best int) {
	best, least := 0, math.MaxInt
	for width := max(conditions, 1); ; width++ {
		deep := 0
		for _, n := range lengths {
			deep = max(deep, groupSize(n, width))
		}
		if width+deep < least {
			best, least = width, width+deep
		}
		if deep == 0 {
			return best
		}
	}
}

// groupSize is the size of the groups of n operations that fit into a width; 0: they fit as they are.
func groupSize(n, width int) int {
	if n <= width {
		return 0
	}
	return (n + width - 1) / width
}

// inline appends an operation to a list: if it is a transaction without conditions, its operations. etcd lets one nested
// transaction put a key that a later one deletes, and refuses that in one level: apart makes each operation a transaction.
func inline(flat []*pb.RequestOp, op *pb.RequestOp, apart bool) ([]*pb.RequestOp, restore) {
	t := op.GetRequestTxn()
	switch {
	case t == nil && apart:
		alone := txnOp(&pb.TxnRequest{Success: []*pb.RequestOp{op}})
		return append(flat, alone), func(next func() *pb.ResponseOp) *pb.ResponseOp { return only(next().GetResponseTxn()) }
	case t == nil:
		return append(flat, op), func(next func() *pb.ResponseOp) *pb.ResponseOp { return next() }
	case len(t.Compare)+len(t.Failure) > 0:
		both := arrange(len(t.Compare), t.Success, t.Failure)
		success, failure := both[0], both[1]
		op = txnOp(&pb.TxnRequest{Compare: t.Compare, Success: success.ops, Failure: failure.ops})
		return append(flat, op), func(next func() *pb.ResponseOp) *pb.ResponseOp {
			answer := next()
			if a := answer.GetResponseTxn(); a.GetSucceeded() {
				a.Responses = success.answers(a.Responses)
			} else if a != nil {
				a.Responses = failure.answers(a.Responses)
			}
			return answer
		}
	}
	var restores []restore
	for _, inner := range t.Success {
		var r restore
		flat, r = inline(flat, inner, apart)
		restores = append(restores, r)
	}
	return flat, func(next func() *pb.ResponseOp) *pb.ResponseOp {
		a := &pb.TxnResponse{Header: new(pb.ResponseHeader), Succeeded: true}
		for _, r := range restores {
			a.Responses = append(a.Responses, r(next))
		}
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: a}}
	}
}

// only returns the answer of a transaction with one operation.
func only(t *pb.TxnResponse) *pb.ResponseOp {
	if len(t.GetResponses()) != 1 {
		return nil
	}
	return t.Responses[0]
}

// deletesNested reports whether an operation is a transaction that may delete keys.
func deletesNested(op *pb.RequestOp) bool {
	t := op.GetRequestTxn()
	return slices.ContainsFunc(slices.Concat(t.GetSuccess(), t.GetFailure()), func(op *pb.RequestOp) bool {
		return op.GetRequestDeleteRange() != nil || deletesNested(op)
	})
}

// answers are the answers to the operations as they were.
func (a *arranged) answers(responses []*pb.ResponseOp) (answers []*pb.ResponseOp) {
	if a.grouped {
		var flat []*pb.ResponseOp
		for _, group := range responses {
			flat = append(flat, group.GetResponseTxn().GetResponses()...)
		}
		responses = flat
	}
	next := func() (answer *pb.ResponseOp) {
		if len(responses) > 0 {
			answer, responses = responses[0], responses[1:]
		}
		return answer
	}
	for _, r := range a.restores {
		answers = append(answers, r(next))
	}
	return answers
}

func txnOp(t *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}
}

// form is a transaction that executes operations, and reads behind them, under conditions.
type form struct {
	txn    *pb.TxnRequest
	checks int       // the first answers are those to conditions that are operations
	ops    int       // then come those to the operations, and those to the reads
	list   *arranged // nil: as they were
	unread bool      // the reads are left out
	needs  int
}

// formOf returns the first form that fits into a limit: as the operations are, so without the reads, arranged, and so without the
// reads. If none fits, it is the last one.
func formOf(conditions []*pb.Compare, ops, reads []*pb.RequestOp, limit int) *form {
	f := &form{txn: linearizable(&pb.TxnRequest{Compare: conditions, Success: slices.Concat(ops, reads)}), ops: len(ops)}
	f.needs = need(f.txn)
	if f.needs > limit && len(reads) > 0 {
		if bare := formOf(conditions, ops, nil, limit); bare.list == nil {
			bare.unread = true
			return bare
		}
	}
	for _, behind := range [][]*pb.RequestOp{reads, nil} {
		if f.needs <= limit {
			break
		}
		list := arrange(len(conditions), slices.Concat(ops, behind))[0]
		f = &form{
			txn: linearizable(&pb.TxnRequest{Compare: conditions, Success: list.ops}),
			ops: len(ops), list: list, unread: len(behind) < len(reads),
		}
		f.needs = need(f.txn)
	}
	return f
}

// answers takes the answer of etcd apart.
func (f *form) answers(t *pb.TxnResponse) (answers, reads []*pb.ResponseOp) {
	all := t.GetResponses()
	if f.list != nil {
		all = f.list.answers(all)
	}
	all = all[min(f.checks, len(all)):]
	n := min(f.ops, len(all))
	return all[:n], all[n:]
}
