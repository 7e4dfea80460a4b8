package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// drawOps draws n operations, of which some are transactions, and numbers the others.
func drawOps(rng *rand.Rand, n, depth int, number *int) (ops []*pb.RequestOp) {
	for range n {
		if depth > 0 && rng.IntN(4) == 0 {
			t := &pb.TxnRequest{Success: drawOps(rng, rng.IntN(6), depth-1, number)}
			if rng.IntN(2) == 0 {
				t.Compare = []*pb.Compare{{Key: []byte("c")}}
				t.Failure = drawOps(rng, rng.IntN(6), depth-1, number)
			}
			ops = append(ops, txnOp(t))
			continue
		}
		*number++
		ops = append(ops, read(&pb.RangeRequest{Key: fmt.Append(nil, *number)}))
	}
	return ops
}

// run answers operations: a range with its own key.
func run(ops []*pb.RequestOp, holds bool) (answers []*pb.ResponseOp) {
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			answers = append(answers, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{
				ResponseRange: &pb.RangeResponse{Header: &pb.ResponseHeader{MemberId: uint64(len(op.GetRequestRange().Key))}, Count: int64(
					number(op.GetRequestRange().Key))},
			}})
			continue
		}
		a := &pb.TxnResponse{Header: new(pb.ResponseHeader), Succeeded: holds || len(t.Compare) == 0}
		if a.Succeeded {
			a.Responses = run(t.Success, holds)
		} else {
			a.Responses = run(t.Failure, holds)
		}
		answers = append(answers, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: a}})
	}
	return answers
}

func number(key []byte) (n int) {
	fmt.Sscan(string(key), &n)
	return n
}

// TestArrangedOperations: an arrangement executes the same operations in the same order, its answers are those to the
// operations as they were, and it never needs more.
func TestArrangedOperations(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 0
		depth := rng.IntN(3)
		ops := drawOps(rng, rng.IntN(140), depth, &n)
		conditions := rng.IntN(130)
		a := arrange(conditions, ops)[0]
		flat := len(leaves(ops))
		if was, is := max(conditions, flat)+deepest(leaves(ops)), max(conditions, len(a.ops))+deepest(a.ops); depth < 2 && is > was {
			t.Fatalf("seed %d: it needed %d, and needs %d", seed, was, is)
		}
		for _, holds := range []bool{false, true} {
			got, want := &pb.TxnResponse{Responses: a.answers(run(a.ops, holds))}, &pb.TxnResponse{Responses: run(ops, holds)}
			if !proto.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
	}
}

// leaves are operations without the transactions that have no conditions around them.
func leaves(ops []*pb.RequestOp) (all []*pb.RequestOp) {
	for _, op := range ops {
		if t := op.GetRequestTxn(); t != nil && len(t.Compare)+len(t.Failure) == 0 {
			all = append(all, leaves(t.Success)...)
		} else {
			all = append(all, op)
		}
	}
	return all
}

// TestWhatFits: the guard and the reads of a write's keys take nothing from etcd's limit of 128, up to 126 conditions.
func TestWhatFits(t *testing.T) {
	guard := []*pb.Compare{{Key: []byte("session")}}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k")}}}
	get := read(&pb.RangeRequest{Key: []byte("k")})
	list := func(op *pb.RequestOp, n int) (ops []*pb.RequestOp) {
		for range n {
			ops = append(ops, op)
		}
		return ops
	}
	for conditions := range 129 {
		for _, success := range []int{1, 64, 126, 127, 128} {
			for _, failure := range []int{0, 1, 128} {
				whole := txnOp(&pb.TxnRequest{
					Compare: make([]*pb.Compare, conditions), Success: list(put, success), Failure: list(put, failure),
				})
				f := formOf(guard, []*pb.RequestOp{whole}, list(get, 16), maxTxnOps)
				fits := conditions < 126 || conditions < 128 && success < 128 && failure < 128
				if got := f.needs <= maxTxnOps; got != fits {
					t.Errorf("%d conditions, %d and %d operations: %d", conditions, success, failure, f.needs)
				}
				branch := formOf(make([]*pb.Compare, conditions+1), list(put, success), nil, maxTxnOps)
				if got := branch.needs <= maxTxnOps; got != (conditions < 128) {
					t.Errorf("the branch behind %d conditions, %d operations: %d", conditions, success, branch.needs)
				}
			}
		}
	}
	for puts := 112; puts < 128; puts++ { // they fit as they are, without the reads
		whole := txnOp(&pb.TxnRequest{Success: list(put, puts)})
		f := formOf(guard, []*pb.RequestOp{whole}, list(get, 16), maxTxnOps)
		if f.list != nil || !f.unread || f.needs > maxTxnOps {
			t.Errorf("%d puts need %d, arranged %v, unread %v", puts, f.needs, f.list != nil, f.unread)
		}
	}
	if f := formOf(guard, []*pb.RequestOp{put}, []*pb.RequestOp{get}, maxTxnOps); f.list != nil || f.needs != 2 || f.unread {
		t.Errorf("a small put: %+v", f)
	}
}

// TestReadsAreLinearizable: etcd executes no transaction of the gateway on the old state of a member.
func TestReadsAreLinearizable(t *testing.T) {
	guard := []*pb.Compare{{Key: []byte("session")}}
	serializable := read(&pb.RangeRequest{Key: []byte("k"), Serializable: true})
	for name, made := range map[string]*pb.TxnRequest{
		"its own request without operations": compile(new(core.Request), 0),
		"a branch without operations":        formOf(guard, nil, nil, maxTxnOps).txn,
		"a branch of serializable reads":     formOf(guard, []*pb.RequestOp{serializable, serializable}, nil, maxTxnOps).txn,
		"an arranged branch":                 formOf(guard, slices.Repeat([]*pb.RequestOp{serializable}, 20), nil, 10).txn,
	} {
		if txn.IsTxnReadonly(made) && txn.IsTxnSerializable(made) {
			t.Errorf("%s is answered from a member's own state: %v", name, made)
		}
	}
}

// TestDeletionsStayInTransactions: etcd lets a key be put and deleted in two nested transactions, and not in one level.
func TestDeletionsStayInTransactions(t *testing.T) {
	put := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key)}}}
	}
	gone := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")}}}
	ops := []*pb.RequestOp{txnOp(&pb.TxnRequest{Success: []*pb.RequestOp{put("k")}}), txnOp(&pb.TxnRequest{Success: []*pb.RequestOp{gone}})}
	for i := range 125 {
		ops = append(ops, put(fmt.Sprint("other", i)))
	}
	var check func(level []*pb.RequestOp)
	check = func(level []*pb.RequestOp) {
		puts := slices.ContainsFunc(level, func(op *pb.RequestOp) bool { return op.GetRequestPut() != nil })
		if puts && slices.ContainsFunc(level, func(op *pb.RequestOp) bool { return op.GetRequestDeleteRange() != nil || deletesNested(op) }) {
			t.Errorf("%d operations put keys beside a deletion", len(level))
		}
		for _, op := range level {
			check(op.GetRequestTxn().GetSuccess())
		}
	}
	check(arrange(1, ops)[0].ops)
}
