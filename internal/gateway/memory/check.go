package memory

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/pkg/v3/adt"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// maxTxnOps is etcd's default for --max-txn-ops.
const maxTxnOps = 128

func checkRange(q *pb.RangeRequest) error {
	_, order := pb.RangeRequest_SortOrder_name[int32(q.SortOrder)]
	_, target := pb.RangeRequest_SortTarget_name[int32(q.SortTarget)]
	switch {
	case len(q.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case !order || !target:
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

// errNoWrite refuses what a client's handler never proposes.
var errNoWrite = status.Error(codes.InvalidArgument, "netcraq: a command that is not one write of etcd's API")

// checkCommand makes etcd's checks of a write, and those of this store: no command that fails them may be proposed.
func checkCommand(q *pb.InternalRaftRequest) error {
	fields := 0
	q.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Name() != "header" {
			fields++
		}
		return true
	})
	switch {
	case fields != 1, keyspace.HasPassword(q):
		return errNoWrite
	case q.Put != nil:
		return checkPut(q.Put)
	case q.Txn != nil:
		return checkWriting(q.Txn)
	case q.DeleteRange != nil && len(q.DeleteRange.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case q.Alarm != nil:
		return checkAlarm(q.Alarm)
	case q.Authenticate != nil, keyspace.ChangesUsers(q):
		return nil
	case q.DeleteRange != nil, q.Compaction != nil, q.LeaseGrant != nil, q.LeaseRevoke != nil:
		return nil
	}
	return errNoWrite
}

// checkAlarm refuses alarms that a keyspace does not heed.
func checkAlarm(q *pb.AlarmRequest) error {
	if q.Action == pb.AlarmRequest_GET {
		return errNoWrite
	}
	if q.Action == pb.AlarmRequest_ACTIVATE && q.Alarm != pb.AlarmType_NOSPACE && q.Alarm != pb.AlarmType_NONE {
		return status.Error(codes.Unimplemented, "netcraq: a keyspace has no alarm but NOSPACE")
	}
	return nil
}

// checkWriting checks a transaction that writes.
func checkWriting(q *pb.TxnRequest) error {
	if err := checkTxn(q); err != nil {
		return err
	}
	switch {
	case txn.IsTxnReadonly(q):
		return errNoWrite
	case readsHistory(q):
		return errHistory
	}
	return nil
}

func checkPut(q *pb.PutRequest) error {
	switch {
	case len(q.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case q.IgnoreValue && len(q.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case q.IgnoreLease && q.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

// checkTxn makes etcd's checks of a transaction. The store would panic on one that fails them.
func checkTxn(q *pb.TxnRequest) error {
	if err := checkOps(q, maxTxnOps); err != nil {
		return err
	}
	for _, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		if len(ops) == 0 || len(ops) == 1 && ops[0].GetRequestTxn() == nil {
			continue // one operation changes no key twice
		}
		if _, err := changed(ops); err != nil {
			return err
		}
	}
	return keyspace.Executable(q)
}

func checkOps(q *pb.TxnRequest, most int) error {
	n := max(len(q.Compare), len(q.Success), len(q.Failure))
	if n > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range q.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		for _, op := range ops {
			if err := checkOp(op, most-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, most int) error {
	switch {
	case op.GetRequestRange() != nil:
		return checkRange(op.GetRequestRange())
	case op.GetRequestPut() != nil:
		return checkPut(op.GetRequestPut())
	case op.GetRequestDeleteRange() != nil:
		if len(op.GetRequestDeleteRange().Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
		return nil
	case op.GetRequestTxn() != nil:
		return checkOps(op.GetRequestTxn(), most)
	}
	return rpctypes.ErrGRPCKeyNotFound // as etcd
}

// changes is a set of keys that operations may change.
type changes struct {
	puts map[string]bool
	dels adt.IntervalTree
}

func (c *changes) overlaps(key string) bool {
	return c.puts[key] || c.dels.Intersects(adt.NewStringAffinePoint(key))
}

// changed returns the keys that operations may change, and refuses two changes of a key. Only one branch of a nested
// transaction happens, so its branches may change the same key.
func changed(ops []*pb.RequestOp) (*changes, error) {
	all := &changes{make(map[string]bool), adt.NewIntervalTree()}
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			all.dels.Insert(intervalOf(d), struct{}{})
		}
	}
	for _, op := range ops {
		q := op.GetRequestTxn()
		if q == nil {
			continue
		}
		success, err := changed(q.Success)
		if err != nil {
			return nil, err
		}
		failure, err := changed(q.Failure)
		if err != nil {
			return nil, err
		}
		for _, branch := range []*changes{success, failure} {
			for key := range branch.puts {
				if all.overlaps(key) {
					return nil, rpctypes.ErrGRPCDuplicateKey
				}
			}
		}
		for _, branch := range []*changes{success, failure} {
			for key := range branch.puts {
				all.puts[key] = true
			}
			all.dels.Union(branch.dels, adt.NewStringAffineInterval("\x00", ""))
		}
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			if all.overlaps(string(p.Key)) {
				return nil, rpctypes.ErrGRPCDuplicateKey
			}
			all.puts[string(p.Key)] = true
		}
	}
	return all, nil
}

func intervalOf(d *pb.DeleteRangeRequest) adt.Interval {
	if len(d.RangeEnd) == 0 {
		return adt.NewStringAffinePoint(string(d.Key))
	}
	return adt.NewStringAffineInterval(string(d.Key), string(d.RangeEnd))
}

// readsHistory reports whether a transaction reads an earlier revision.
func readsHistory(q *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		for _, op := range ops {
			if op.GetRequestRange().GetRevision() != 0 {
				return true
			}
			if nested := op.GetRequestTxn(); nested != nil && readsHistory(nested) {
				return true
			}
		}
	}
	return false
}
