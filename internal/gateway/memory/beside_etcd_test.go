package memory

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/adt"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3alarm"
	"go.etcd.io/etcd/server/v3/etcdserver/apply"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// etcd's own checks of requests, which its package does not export.

//go:linkname etcdCheckRange go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.checkRangeRequest
func etcdCheckRange(*pb.RangeRequest) error

//go:linkname etcdCheckPut go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.checkPutRequest
func etcdCheckPut(*pb.PutRequest) error

//go:linkname etcdCheckDelete go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.checkDeleteRequest
func etcdCheckDelete(*pb.DeleteRangeRequest) error

//go:linkname etcdCheckTxn go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.checkTxnRequest
func etcdCheckTxn(q *pb.TxnRequest, most int) error

//go:linkname etcdCheckIntervals go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.checkIntervals
func etcdCheckIntervals([]*pb.RequestOp) (map[string]struct{}, adt.IntervalTree, error)

//go:linkname etcdError go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.togRPCError
func etcdError(error) error

// etcdQuiet panics where etcd would end the process.
var etcdQuiet = zap.NewNop().WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic))

// etcdStore is what a member of etcd checks and applies requests with, on a file of its own.
type etcdStore struct {
	backend backend.Backend
	kv      mvcc.WatchableKV
	lessor  lease.Lessor
	applier apply.UberApplier
}

type memberStatus struct{}

func (memberStatus) MemberID() types.ID     { return 1 }
func (memberStatus) Leader() types.ID       { return 1 }
func (memberStatus) CommittedIndex() uint64 { return 0 }
func (memberStatus) AppliedIndex() uint64   { return 0 }
func (memberStatus) Term() uint64           { return 1 }

type etcdVersion struct{}

func (etcdVersion) Version() *semver.Version { return semver.Must(semver.NewVersion(version.Version)) }

func newEtcdStore(t testing.TB, file string) *etcdStore {
	t.Helper()
	config := backend.DefaultBackendConfig(etcdQuiet)
	config.Path, config.UnsafeNoFsync, config.BatchLimit = file, true, 1000
	e := &etcdStore{backend: backend.New(config)}
	schema.CreateMetaBucket(e.backend.BatchTx())
	e.lessor = lease.NewLessor(etcdQuiet, e.backend, etcdVersion{}, lease.LessorConfig{MinLeaseTTL: 2})
	e.kv = mvcc.New(etcdQuiet, e.backend, e.lessor, mvcc.StoreConfig{CompactionSleepInterval: time.Millisecond})
	alarms, err := v3alarm.NewAlarmStore(etcdQuiet, schema.NewAlarmBackend(etcdQuiet, e.backend))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.NewTokenProvider(etcdQuiet, "simple", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	e.applier = apply.NewUberApplier(apply.ApplierOptions{
		Logger: etcdQuiet, KV: e.kv, Lessor: e.lessor, Backend: e.backend, AlarmStore: alarms,
		AuthStore: auth.NewAuthStore(etcdQuiet, schema.NewAuthBackend(etcdQuiet, e.backend), tokens, 0),
		Cluster:   membership.NewCluster(etcdQuiet), RaftStatus: memberStatus{}, TxnModeWriteWithSharedBuffer: true,
		QuotaBackendBytesCfg: 1 << 40, WarningApplyDuration: time.Hour,
	})
	return e
}

// close ends the store.
func (e *etcdStore) close(t testing.TB) {
	t.Helper()
	e.lessor.Stop()
	if err := e.kv.Close(); err != nil {
		t.Error(err)
	}
	if err := e.backend.Close(); err != nil {
		t.Error(err)
	}
}

// do answers a request as etcd's API does.
func (e *etcdStore) do(q proto.Message) (answer proto.Message, err error) {
	answer, err = e.answer(q)
	if _, isStatus := status.FromError(err); !isStatus { // checks fail with one
		err = etcdError(err)
	}
	return answer, err
}

func (e *etcdStore) answer(q proto.Message) (proto.Message, error) {
	ctx := context.Background()
	switch q := q.(type) {
	case *pb.RangeRequest:
		if err := etcdCheckRange(q); err != nil {
			return nil, err
		}
		a, _, err := txn.Range(ctx, etcdQuiet, e.kv, q, true)
		return a, err
	case *pb.PutRequest:
		if err := etcdCheckPut(q); err != nil {
			return nil, err
		}
		return e.apply(&pb.InternalRaftRequest{Put: q})
	case *pb.DeleteRangeRequest:
		if err := etcdCheckDelete(q); err != nil {
			return nil, err
		}
		return e.apply(&pb.InternalRaftRequest{DeleteRange: q})
	case *pb.TxnRequest:
		if err := etcdCheck(q); err != nil {
			return nil, err
		}
		if txn.IsTxnReadonly(q) {
			a, _, err := txn.Txn(ctx, etcdQuiet, q, true, e.kv, e.lessor, false)
			return a, err
		}
		return e.apply(&pb.InternalRaftRequest{Txn: q})
	case *pb.CompactionRequest:
		return e.apply(&pb.InternalRaftRequest{Compaction: q})
	case *pb.LeaseGrantRequest:
		return e.apply(&pb.InternalRaftRequest{LeaseGrant: q})
	case *pb.LeaseRevokeRequest:
		return e.apply(&pb.InternalRaftRequest{LeaseRevoke: q})
	}
	return nil, fmt.Errorf("%T", q)
}

// etcdCheck makes the checks of a transaction that etcd's API makes.
func etcdCheck(q *pb.TxnRequest) error {
	err := etcdCheckTxn(q, maxTxnOps)
	for _, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		if err == nil {
			_, _, err = etcdCheckIntervals(ops)
		}
	}
	return err
}

func (e *etcdStore) apply(r *pb.InternalRaftRequest) (proto.Message, error) {
	a := e.applier.Apply(&apply.InternalRaftRequestWrapper{InternalRaftRequest: r}, membership.ApplyBoth)
	return a.Resp, a.Err
}

func file(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("db%d", n)) }
