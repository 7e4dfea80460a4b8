package engine

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// ErrUnguarded says that etcd did not execute a write, because its authentication refuses the guard. The cache has ended:
// once [Engine.Bypassed] returns, the write may be sent as it is.
var ErrUnguarded = errors.New("etcd's authentication refuses the guard of a write")

// judge returns the error of a write that etcd refused. If etcd would allow the user the write itself, the guard was
// refused: then it ends the cache.
func (e *Engine) judge(ctx context.Context, op *pb.RequestOp, refused error) error {
	if !errors.Is(rpctypes.Error(refused), rpctypes.ErrPermissionDenied) {
		return refused
	}
	kv := pb.NewKVClient(e.o.Etcd)
	for checks := range slices.Chunk(permissions(op, nil), maxChecks) {
		// etcd checks the permissions of both branches, and executes the empty one.
		if _, err := kv.Txn(ctx, &pb.TxnRequest{Failure: checks}); err != nil {
			return err
		}
	}
	nobody, asked := metadata.NewOutgoingContext(ctx, nil), bootTime()
	if _, err := kv.Range(nobody, &pb.RangeRequest{Key: []byte(timelineKey)}); !unauthorized(err) {
		return refused
	}
	e.withdraw(ErrAuth, asked)
	return ErrUnguarded
}

// maxChecks is below etcd's limit of the operations in a transaction.
const maxChecks = 100

// permissions lists operations, none of them to be executed, that need the permissions which etcd checks for an
// operation. Unlike puts, deletions may overlap in one transaction. etcd before
// 3.7 does not look into nested transactions. What a later one refuses for them, it refuses when the write is sent as it is.
func permissions(op *pb.RequestOp, list []*pb.RequestOp) []*pb.RequestOp {
	may := func(key, end []byte, write bool) {
		if write {
			list = append(list, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: key, RangeEnd: end},
			}})
			return
		}
		list = append(list, read(&pb.RangeRequest{Key: key, RangeEnd: end}))
	}
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		may(r.RequestRange.Key, r.RequestRange.RangeEnd, false)
	case *pb.RequestOp_RequestPut:
		may(r.RequestPut.Key, nil, true)
		if r.RequestPut.PrevKv {
			may(r.RequestPut.Key, nil, false)
		}
	case *pb.RequestOp_RequestDeleteRange:
		may(r.RequestDeleteRange.Key, r.RequestDeleteRange.RangeEnd, true)
		if r.RequestDeleteRange.PrevKv {
			may(r.RequestDeleteRange.Key, r.RequestDeleteRange.RangeEnd, false)
		}
	case *pb.RequestOp_RequestTxn:
		for _, c := range r.RequestTxn.Compare {
			may(c.Key, c.RangeEnd, false)
		}
		for _, inner := range slices.Concat(r.RequestTxn.Success, r.RequestTxn.Failure) {
			if inner.GetRequestTxn() == nil {
				list = permissions(inner, list)
			}
		}
	}
	return list
}

// cutOff ends a write that was under way when the cache ended.
func (e *Engine) cutOff(ctx context.Context, r *request) (written, error) {
	select {
	case <-e.gone:
	case <-ctx.Done():
		return written{}, contextError(ctx)
	default:
		return written{}, errClosed
	}
	if r.drop() {
		return written{}, ErrUnguarded
	}
	var result *core.Result
	select {
	case result = <-r.results:
	case <-ctx.Done():
		return written{}, contextError(ctx)
	}
	switch {
	case errors.Is(result.Err, errDropped):
		return written{}, ErrUnguarded
	case result.Unknown:
		return written{}, errUnknown
	case result.Err != nil:
		return written{}, e.judge(ctx, r.op, result.Err)
	}
	if _, err := e.Bypassed(ctx); err != nil {
		return written{}, err
	}
	return result.Raw.(written), nil
}
