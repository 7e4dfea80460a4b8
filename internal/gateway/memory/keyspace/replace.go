package keyspace

import (
	"bytes"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// replacement returns the put of a transaction that replaces one object if it has a certain revision, as Kubernetes' API
// server does; nil for all others. Such transactions are most of all writes, and need neither the object's value nor a
// second transaction of the store.
func replacement(q *pb.TxnRequest) (put *pb.PutRequest, revision int64) {
	if len(q.Compare) != 1 || len(q.Success) != 1 {
		return nil, 0
	}
	c, put := q.Compare[0], q.Success[0].GetRequestPut()
	if put == nil || put.Lease != 0 || put.IgnoreLease || put.IgnoreValue || put.PrevKv ||
		c.Target != pb.Compare_MOD || c.Result != pb.Compare_EQUAL || len(c.RangeEnd) != 0 || !bytes.Equal(c.Key, put.Key) {
		return nil, 0
	}
	return put, c.GetModRevision()
}

// replace executes a replacement. It returns nil, and changes nothing, if the object has another revision.
func (k *Keyspace) replace(put *pb.PutRequest, revision int64) *pb.TxnResponse {
	tx := k.store.Write(traceutil.TODO())
	defer tx.End()
	found, err := tx.Range(context.Background(), put.Key, nil, mvcc.RangeOptions{FastKeysOnly: true})
	if err != nil {
		return nil
	}
	present := int64(0)
	if len(found.KVs) > 0 {
		present = found.KVs[0].ModRevision
	}
	if present != revision {
		return nil
	}
	now := tx.Put(put.Key, put.Value, lease.NoLease)
	return &pb.TxnResponse{
		Header: &pb.ResponseHeader{Revision: now}, Succeeded: true,
		Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{
			ResponsePut: &pb.PutResponse{Header: &pb.ResponseHeader{Revision: now}},
		}}},
	}
}
