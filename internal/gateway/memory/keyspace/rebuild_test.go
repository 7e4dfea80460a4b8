package keyspace

import (
	"errors"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// TestExecutable: transactions that delete a range to infinity and put a key of it are refused, and only those. Such a
// transaction in the log has no effect.
func TestExecutable(t *testing.T) {
	ops := func(all ...*pb.RequestOp) []*pb.RequestOp { return all }
	nest := func(then, otherwise []*pb.RequestOp) *pb.RequestOp { return opTxn(exists("zz", then, otherwise)) }
	end := opDelete("y", "\x00")
	for name, c := range map[string]struct {
		q       *pb.TxnRequest
		refused bool
	}{
		"keeps the lease": {&pb.TxnRequest{Success: ops(end, keeps("zz"))}, true},
		"another value":   {&pb.TxnRequest{Success: ops(end, puts("zz"))}, true},
		"put before":      {&pb.TxnRequest{Success: ops(puts("zz"), end)}, true},
		"the first key":   {&pb.TxnRequest{Success: ops(end, puts("y"))}, true},
		"everything":      {&pb.TxnRequest{Failure: ops(opDelete("\x00", "\x00"), keeps("zz"))}, true},
		"two ranges":      {&pb.TxnRequest{Success: ops(end, opDelete("b", "\x00"), puts("c"))}, true},
		"two puts":        {&pb.TxnRequest{Success: ops(puts("zz"), puts("c"), end)}, true},
		"nested deletion": {&pb.TxnRequest{Success: ops(nest(ops(end), nil), keeps("zz"))}, true},
		"nested put":      {&pb.TxnRequest{Success: ops(end, nest(nil, ops(puts("zz"))))}, true},
		"both nested":     {&pb.TxnRequest{Success: ops(nest(ops(puts("zz")), nil), nest(nil, ops(end)))}, true},
		"deeper":          {&pb.TxnRequest{Success: ops(nest(ops(nest(ops(end, keeps("zz")), nil)), nil))}, true},
		"below":           {&pb.TxnRequest{Success: ops(end, puts("x"))}, false},
		"other branch":    {&pb.TxnRequest{Success: ops(end), Failure: ops(puts("zz"))}, false},
		"of a nested one": {&pb.TxnRequest{Success: ops(nest(ops(end), ops(puts("zz"))), puts("x"))}, false},
		"inverted":        {&pb.TxnRequest{Success: ops(opDelete("zzz", "a"), keeps("zz"))}, false},
		"no put":          {&pb.TxnRequest{Success: ops(end, end)}, false},
		"nothing":         {&pb.TxnRequest{}, false},
	} {
		k := newKeyspace(t)
		must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("zz"), Value: []byte("1")}})
		before := k.Revision()
		_, err := apply(t, k, &pb.InternalRaftRequest{Txn: c.q})
		if refused := errors.Is(err, rpctypes.ErrGRPCDuplicateKey); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %v, want refused: %v", name, err, c.refused)
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

// TestRebuildKeepsNoHalf: the store has a revision of a deletion that it gave up after its first key. The keyspace that is
// made of its contents has none.
func TestRebuildKeepsNoHalf(t *testing.T) {
	k, twin := newKeyspace(t), newKeyspace(t)
	for _, k := range []*Keyspace{k, twin} {
		for i := range 5 * partEntries {
			must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i%10)}})
		}
	}
	// Of five full parts, the search for the end looks at the third and the fifth. Of six it looks at the fourth.
	parts := k.heap.revisions.parts
	fourth := parts[3]
	parts[3] = new(part)
	all := &pb.DeleteRangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}
	_, err := apply(t, k, &pb.InternalRaftRequest{DeleteRange: all})
	if !errors.Is(err, ErrBroken) || k.Revision() != twin.Revision()+1 {
		t.Fatalf("the deletion was not given up in the middle: revision %d, %v", k.Revision(), err)
	}
	k.heap.revisions.parts[3] = fourth
	rebuilt, err := k.Rebuild()
	if err != nil {
		t.Fatal(err)
	}
	if rebuilt.Revision() != twin.Revision() || rebuilt.Bytes() != twin.Bytes() {
		t.Errorf("revision %d, %d bytes; want %d, %d", rebuilt.Revision(), rebuilt.Bytes(), twin.Revision(), twin.Bytes())
	}
	compareAll(t, rebuilt, twin)
	for _, k := range []*Keyspace{rebuilt, twin} {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}
