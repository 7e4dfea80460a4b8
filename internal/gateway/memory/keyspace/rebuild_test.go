package keyspace

import (
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"google.golang.org/protobuf/proto"
)

func putOp(p *pb.PutRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: p}}
}

func opDelete(key, end string) *pb.RequestOp {
	d := &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d}}
}

func opTxn(q *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: q}}
}

// keeps is a put of a key that keeps its lease.
func keeps(key string) *pb.RequestOp {
	return putOp(&pb.PutRequest{Key: []byte(key), IgnoreLease: true})
}

func puts(key string) *pb.RequestOp { return putOp(&pb.PutRequest{Key: []byte(key)}) }

func exists(key string, then, otherwise []*pb.RequestOp) *pb.TxnRequest {
	return &pb.TxnRequest{Compare: []*pb.Compare{{
		Key: []byte(key), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_Version{},
	}}, Success: then, Failure: otherwise}
}

// TestExecutable: transactions that etcd's store would begin and not finish are refused, and only those.
func TestExecutable(t *testing.T) {
	ops := func(all ...*pb.RequestOp) []*pb.RequestOp { return all }
	keepsValue := putOp(&pb.PutRequest{Key: []byte("zz"), IgnoreValue: true})
	for name, c := range map[string]struct {
		q    *pb.TxnRequest
		want error
	}{
		"lease":           {&pb.TxnRequest{Success: ops(opDelete("y", "\x00"), keeps("zz"))}, etcderrors.ErrKeyNotFound},
		"value":           {&pb.TxnRequest{Success: ops(opDelete("y", "\x00"), keepsValue)}, etcderrors.ErrKeyNotFound},
		"everything":      {&pb.TxnRequest{Success: ops(opDelete("\x00", "\x00"), keeps("zz"))}, etcderrors.ErrKeyNotFound},
		"a range":         {&pb.TxnRequest{Success: ops(opDelete("y", "zzz"), keeps("zz"))}, etcderrors.ErrKeyNotFound},
		"the key":         {&pb.TxnRequest{Success: ops(opDelete("zz", ""), keeps("zz"))}, etcderrors.ErrKeyNotFound},
		"absent":          {&pb.TxnRequest{Success: ops(opDelete("b", "c"), keeps("none"))}, etcderrors.ErrKeyNotFound},
		"nested deletion": {&pb.TxnRequest{Success: ops(opTxn(&pb.TxnRequest{Success: ops(opDelete("y", "\x00"))}), keeps("zz"))}, etcderrors.ErrKeyNotFound},
		"nested put":      {&pb.TxnRequest{Success: ops(opDelete("y", "\x00"), opTxn(exists("zz", ops(keeps("zz")), nil)))}, etcderrors.ErrKeyNotFound},
		"other branch":    {&pb.TxnRequest{Success: ops(opDelete("y", "\x00"), opTxn(exists("zz", nil, ops(keeps("zz")))))}, nil},
		"put before":      {&pb.TxnRequest{Success: ops(keeps("zz"), opDelete("y", "\x00"))}, nil},
		"put between":     {&pb.TxnRequest{Success: ops(opDelete("y", "\x00"), puts("zz"), keeps("zz"))}, nil},
		"deleted again":   {&pb.TxnRequest{Success: ops(puts("zz"), opDelete("y", "\x00"), keeps("zz"))}, etcderrors.ErrKeyNotFound},
		"behind":          {&pb.TxnRequest{Success: ops(opDelete("zzz", "\x00"), keeps("zz"))}, nil},
		"inverted":        {&pb.TxnRequest{Success: ops(opDelete("zzz", "a"), keeps("zz"))}, nil},
		"another lease":   {&pb.TxnRequest{Success: ops(opDelete("y", "\x00"), puts("zz"))}, nil},
	} {
		k := newKeyspace(t)
		must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("zz"), Value: []byte("1")}})
		before := k.Revision()
		_, err := apply(t, k, &pb.InternalRaftRequest{Txn: c.q})
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err != nil && k.Revision() != before {
			t.Errorf("%s: refused at revision %d, and executed at %d", name, before, k.Revision())
		}
		must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("zz"), Value: []byte("2")}})
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

func must(t *testing.T, k *Keyspace, r *pb.InternalRaftRequest) proto.Message {
	t.Helper()
	a, err := apply(t, k, r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// panics is a transaction that the store gives up after its first operation. No check lets it pass.
func panics() *pb.InternalRaftRequest {
	read := &pb.RangeRequest{Key: []byte("k"), SortOrder: pb.RangeRequest_ASCEND, SortTarget: 99}
	return &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{
		putOp(&pb.PutRequest{Key: []byte("k"), Value: []byte("half"), Lease: 7}), opDelete("l", ""),
		{Request: &pb.RequestOp_RequestRange{RequestRange: read}},
	}}}
}

// TestRebuild: a panic of the store in the middle of a transaction leaves the keyspace as it was before, with its
// history and its leases, and with the same answers afterwards.
func TestRebuild(t *testing.T) {
	k, twin := newKeyspace(t), newKeyspace(t)
	for _, k := range []*Keyspace{k, twin} {
		must(t, k, &pb.InternalRaftRequest{LeaseGrant: &pb.LeaseGrantRequest{ID: 7, TTL: 1000}})
		for _, key := range []string{"k", "l", "m"} {
			must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte(key), Value: []byte("1")}})
		}
		must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("m"), Value: []byte("2"), Lease: 7}})
		must(t, k, &pb.InternalRaftRequest{Compaction: &pb.CompactionRequest{Revision: 3}})
	}
	<-k.Settled()
	bytes := k.Bytes()
	for range 3 {
		if _, err := apply(t, k, panics()); !errors.Is(err, ErrBroken) {
			t.Fatalf("the store went on: %v", err)
		}
		rebuilt, err := k.Rebuild()
		if err != nil {
			t.Fatal(err)
		}
		k = rebuilt
	}
	if k.Revision() != twin.Revision() || k.Bytes() != bytes || k.Compacted() != twin.Compacted() {
		t.Errorf("revision %d, %d bytes, compacted %d; want %d, %d, %d", k.Revision(), k.Bytes(), k.Compacted(),
			twin.Revision(), bytes, twin.Compacted())
	}
	compareAll(t, k, twin)
	for _, c := range []*pb.InternalRaftRequest{
		{Put: &pb.PutRequest{Key: []byte("k"), PrevKv: true}},
		{LeaseRevoke: &pb.LeaseRevokeRequest{ID: 7}},
		{Compaction: &pb.CompactionRequest{Revision: 5}},
		{DeleteRange: &pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true}},
	} {
		if got, want := must(t, k, c), must(t, twin, c); !proto.Equal(got, want) {
			t.Errorf("%v: %v, want %v", c, got, want)
		}
	}
	for _, k := range []*Keyspace{k, twin} {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}
