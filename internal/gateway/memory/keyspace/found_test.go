package keyspace

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/protobuf/proto"
)

// randomRange asks for some of 50 keys, at a revision up to one.
func randomRange(random *rand.Rand, newest int64) *pb.RangeRequest {
	q := &pb.RangeRequest{
		Key: fmt.Appendf(nil, "k%02d", random.IntN(50)), RangeEnd: fmt.Appendf(nil, "k%02d", random.IntN(50)),
		Limit: int64(random.IntN(8)), KeysOnly: random.IntN(8) == 0, CountOnly: random.IntN(8) == 0,
	}
	switch random.IntN(4) {
	case 0:
		q.Key, q.RangeEnd = []byte{0}, []byte{0}
	case 1:
		q.RangeEnd = nil
	}
	if random.IntN(2) == 0 {
		q.Revision = random.Int64N(newest + 2)
	}
	if random.IntN(4) == 0 {
		q.SortOrder, q.SortTarget = pb.RangeRequest_SortOrder(random.IntN(3)), pb.RangeRequest_SortTarget(random.IntN(5))
	}
	if random.IntN(8) == 0 {
		q.MinModRevision, q.MaxCreateRevision = random.Int64N(newest+2), random.Int64N(newest+2)
	}
	return q
}

// TestFind: random ranges have the answers of etcd's code that decodes and encodes every object, among transactions
// that put keys in any order and deletions, after compactions, and of a copy that was made from a snapshot.
func TestFind(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := newKeyspace(t)
	for i := range 300 {
		var ops []*pb.RequestOp
		for _, key := range random.Perm(50)[:1+random.IntN(10)] {
			op := putOp(&pb.PutRequest{Key: fmt.Appendf(nil, "k%02d", key), Value: make([]byte, random.IntN(300))})
			if random.IntN(4) == 0 {
				op = opDelete(fmt.Sprintf("k%02d", key), "")
			}
			ops = append(ops, op)
		}
		must(t, k, &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: ops}})
		if i%100 == 99 {
			must(t, k, &pb.InternalRaftRequest{Compaction: &pb.CompactionRequest{Revision: k.Revision() - 20}})
			twin := restore(t, k.Snapshot())
			if err := k.Close(); err != nil {
				t.Error(err)
			}
			k = twin
		}
		for range 20 {
			compareRange(t, k, randomRange(random, k.Revision()), random.Int64N(5))
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// compareRange compares an answer with etcd's.
func compareRange(t *testing.T, k *Keyspace, q *pb.RangeRequest, most int64) {
	t.Helper()
	want, _, wantErr := txn.Range(t.Context(), quiet, k.store, q, true)
	found, err := k.Find(t.Context(), q, most)
	if err == nil && !found.Answered() {
		if most == 0 || len(q.RangeEnd) == 0 || q.CountOnly || !isFiltered(q) && int64(len(want.GetKvs())) < most {
			t.Fatalf("%v has no answer, most %d", q, most)
		}
		found, err = k.Find(t.Context(), q, 0)
	}
	if !errors.Is(err, wantErr) {
		t.Fatalf("%v: %v, want %v", q, err, wantErr)
	}
	if err != nil {
		return
	}
	encoded, err := found.Append([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	encoded, is := bytes.CutPrefix(encoded, []byte("before"))
	if got := new(pb.RangeResponse); !is || proto.Unmarshal(encoded, got) != nil || !proto.Equal(got, want) {
		t.Fatalf("%v: %v, want %v", q, got, want)
	}
	if len(encoded) != found.Size() {
		t.Fatalf("%v: %d bytes, said to be %d", q, len(encoded), found.Size())
	}
	if got, err := found.Message(); err != nil || !proto.Equal(got, want) {
		t.Fatalf("%v: %v (%v), want %v", q, got, err, want)
	}
}
