package keyspace

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/lease"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

var nothing = zap.NewNop()

// Apply executes a command and returns its response. An error is the command's own: the keyspace is unchanged, in every
// gateway.
func (k *Keyspace) Apply(c *Command) (Answer, error) {
	if c.request == nil {
		if revision := k.replace(&c.replacement); revision != 0 {
			return Answer{replaced: revision}, nil
		}
	}
	r, err := c.whole()
	if err != nil {
		return Answer{}, err
	}
	k.forget(r)
	message, err := k.execute(r)
	return Answer{message: message}, err
}

func (k *Keyspace) execute(r *pb.InternalRaftRequest) (proto.Message, error) {
	ctx := context.Background()
	switch {
	case r.Txn != nil:
		answer, _, err := txn.Txn(ctx, nothing, r.Txn, true, k.store, k.leases, false)
		return answer, err
	case r.Put != nil:
		answer, _, err := txn.Put(ctx, nothing, k.leases, k.store, r.Put)
		return answer, err
	case r.DeleteRange != nil:
		answer, _, err := txn.DeleteRange(ctx, nothing, k.store, r.DeleteRange)
		return answer, err
	case r.Compaction != nil:
		_, err := k.store.Compact(traceutil.TODO(), r.Compaction.Revision)
		return &pb.CompactionResponse{Header: k.header()}, err
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
	return nil, nil // a command of a later version that this one never proposes
}

func (k *Keyspace) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: k.store.Rev()} }

// Compacted is the oldest revision that can be read.
func (k *Keyspace) Compacted() int64 { return k.store.FirstRev() }
