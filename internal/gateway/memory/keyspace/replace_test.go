package keyspace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/protobuf/proto"
)

// TestReplacement: etcd's own code, in another keyspace, answers replacements as this package does.
func TestReplacement(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ours, theirs := newKeyspace(t), newKeyspace(t)
	defer ours.Close()
	defer theirs.Close()
	replaced := 0
	for range 2000 {
		key := fmt.Appendf(nil, "k%d", random.IntN(4))
		revision := max(0, ours.Revision()-int64(random.IntN(6)))
		if random.IntN(8) == 0 {
			revision = 0
		}
		put := &pb.PutRequest{Key: key, Value: fmt.Append(nil, random.Uint32()), PrevKv: random.IntN(8) == 0}
		q := &pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: revision},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
		}
		if random.IntN(8) == 0 {
			q = &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: key},
			}}}}
		}
		got, err := ours.Apply(&pb.InternalRaftRequest{Txn: q})
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := txn.Txn(context.Background(), nothing, q, true, theirs.store, theirs.leases, false)
		if err != nil || !proto.Equal(got, want) {
			t.Fatalf("%v: %v, etcd's is %v (%v)", q, got, want, err)
		}
		if p, _ := replacement(q); p != nil && want.Succeeded {
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("nothing was replaced")
	}
	a, err := ours.all()
	if err != nil {
		t.Fatal(err)
	}
	b, err := theirs.all()
	if err != nil || len(a.KVs) != len(b.KVs) {
		t.Fatalf("%d keys, etcd's %d: %v", len(a.KVs), len(b.KVs), err)
	}
	for i := range a.KVs {
		if !proto.Equal(a.KVs[i], b.KVs[i]) {
			t.Errorf("%v, etcd's %v", a.KVs[i], b.KVs[i])
		}
	}
}
