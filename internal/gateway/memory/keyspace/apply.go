package keyspace

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/platform/collector"
)

// quiet is the logger of etcd's packages. They end the process with it after an error that they do not expect; here
// they panic, and Apply recovers.
var quiet = zap.NewNop().WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic))

// errUnknown is the answer to a command of another version, which no gateway proposes.
var errUnknown = errors.New("the keyspace does not know this command")

// Apply executes a command and returns its response. An error other than [ErrBroken] is the command's own: the
// keyspace is unchanged, in every gateway.
func (k *Keyspace) Apply(c *Command) (a Answer, err error) {
	defer k.recovered(&err)
	if c.request == nil && !k.auth.IsAuthEnabled() && !k.Full() {
		if revision := k.replace(&c.replacement); revision != 0 {
			k.whole = revision
			return Answer{replaced: revision, put: c.replacement.put}, nil
		}
	}
	r, err := c.whole()
	if err != nil {
		return Answer{}, err
	}
	if err := k.permit(r); err != nil {
		return Answer{}, err
	}
	if err := k.checkSpace(c); err != nil {
		return Answer{}, err
	}
	k.forget(r)
	message, err := k.execute(r)
	k.whole = k.store.Rev()
	return Answer{message: message}, err
}

func (k *Keyspace) execute(r *pb.InternalRaftRequest) (proto.Message, error) {
	ctx := context.Background()
	switch {
	case r.Txn != nil:
		if err := Executable(r.Txn); err != nil {
			return nil, err
		}
		if err := k.CheckReads(r.Txn); err != nil {
			return nil, err
		}
		answer, _, err := txn.Txn(ctx, quiet, r.Txn, true, k.store, k.leases, false)
		return answer, err
	case r.Put != nil:
		if len(r.Put.Key) == 0 {
			return nil, rpctypes.ErrGRPCEmptyKey
		}
		answer, _, err := txn.Put(ctx, quiet, k.leases, k.store, r.Put)
		return answer, err
	case r.DeleteRange != nil:
		if err := k.checkDeletion(r.DeleteRange); err != nil {
			return nil, err
		}
		answer, _, err := txn.DeleteRange(ctx, quiet, k.store, r.DeleteRange)
		return answer, err
	case r.Compaction != nil:
		return k.compact(r.Compaction.Revision)
	case r.LeaseGrant != nil:
		l, err := k.leases.Grant(lease.LeaseID(r.LeaseGrant.ID), r.LeaseGrant.TTL)
		if err != nil {
			return nil, err
		}
		return &pb.LeaseGrantResponse{Header: k.header(), ID: int64(l.ID), TTL: l.TTL()}, nil
	case r.LeaseRevoke != nil:
		err := k.leases.Revoke(lease.LeaseID(r.LeaseRevoke.ID))
		return &pb.LeaseRevokeResponse{Header: k.header()}, err
	}
	if r.Alarm != nil {
		return k.changeAlarm(r.Alarm)
	}
	return k.changeUsers(r)
}

// compact forgets history. It waits for the compaction before, so that history does not grow faster than it is removed.
func (k *Keyspace) compact(revision int64) (*pb.CompactionResponse, error) {
	<-k.Settled()
	done, err := k.store.Compact(traceutil.TODO(), revision)
	if err != nil {
		return nil, err
	}
	k.settled.Store(&done)
	go func() {
		select {
		case <-done:
			k.tidy()
			collector.Freed()
		case <-k.gone:
		}
	}()
	return &pb.CompactionResponse{Header: k.header()}, nil
}

// tidy frees the memory of removed revisions in all parts of the history. Commands can be applied between two steps.
func (k *Keyspace) tidy() {
	done, ok := k.Use()
	if !ok {
		return
	}
	defer done()
	k.tidying.Lock()
	defer k.tidying.Unlock()
	for p, more := 0, true; more; time.Sleep(compactionPause) {
		select {
		case <-k.gone:
			return
		default:
			p, more = k.heap.tidy(p)
		}
	}
}

// Settled returns a channel that is closed when the history that the last compaction forgot is removed from memory.
func (k *Keyspace) Settled() <-chan struct{} { return *k.settled.Load() }

func (k *Keyspace) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: k.store.Rev()} }

// Compacted is the oldest revision that can be read.
func (k *Keyspace) Compacted() int64 { return k.store.FirstRev() }
