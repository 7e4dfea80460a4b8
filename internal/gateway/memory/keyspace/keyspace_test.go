package keyspace

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/platform/seedtest"
)

func newKeyspace(t *testing.T) *Keyspace {
	t.Helper()
	k, err := New(1, Tokens{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// command makes one of the commands that change keys and leases.
func command(random *rand.Rand) *pb.InternalRaftRequest {
	key := func() []byte { return fmt.Appendf(nil, "k%d", random.IntN(10)) }
	put := func() *pb.PutRequest {
		return &pb.PutRequest{Key: key(), Value: fmt.Append(nil, random.Uint32()), Lease: int64(random.IntN(4))}
	}
	switch random.IntN(8) {
	case 0:
		return &pb.InternalRaftRequest{DeleteRange: &pb.DeleteRangeRequest{Key: key(), RangeEnd: key()}}
	case 1:
		return &pb.InternalRaftRequest{LeaseGrant: &pb.LeaseGrantRequest{ID: 1 + int64(random.IntN(3)), TTL: 1000}}
	case 2:
		return &pb.InternalRaftRequest{LeaseRevoke: &pb.LeaseRevokeRequest{ID: 1 + int64(random.IntN(3))}}
	case 3:
		first, second := put(), put()
		for bytes.Equal(first.Key, second.Key) {
			second = put()
		}
		return &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: first}}, {Request: &pb.RequestOp_RequestPut{RequestPut: second}},
		}}}
	}
	return &pb.InternalRaftRequest{Put: put()}
}

// restore makes a keyspace from a snapshot, encoded.
func restore(t *testing.T, s *Snapshot) *Keyspace {
	t.Helper()
	var encoded bytes.Buffer
	if err := s.Write(&encoded); err != nil {
		t.Fatal(err)
	}
	k, err := Restore(&encoded, Tokens{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A keyspace that was made from a snapshot has its history: the keys at each revision that was not compacted.
func TestSnapshotHasHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
	k := newKeyspace(t)
	for range 200 {
		_, _ = apply(t, k, command(random)) // a lease may not exist
		if kept := k.Revision() - max(k.Compacted(), 0); random.IntN(50) == 0 && kept > 0 {
			compaction := &pb.CompactionRequest{Revision: k.Revision() - random.Int64N(kept)}
			must(t, k, &pb.InternalRaftRequest{Compaction: compaction})
		}
	}
	again := restore(t, k.Snapshot())
	if got, want := again.Compacted(), k.Compacted(); got != want {
		t.Fatalf("compacted at %d, want %d", got, want)
	}
	for revision := max(k.Compacted(), 1); revision <= k.Revision(); revision++ {
		if got, want := at(t, again, revision), at(t, k, revision); got != want {
			t.Fatalf("revision %d: %s, want %s", revision, got, want)
		}
	}
	if err := errors.Join(k.Close(), again.Close()); err != nil {
		t.Error(err)
	}
}

// at returns all keys of a revision.
func at(t *testing.T, k *Keyspace, revision int64) string {
	t.Helper()
	r, err := k.Store().Range(t.Context(), everything.key, everything.end, mvcc.RangeOptions{Rev: revision})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.KVs)
}

// A keyspace that was made from a snapshot answers as the one of which the snapshot was taken, from then on.
func TestSnapshotContinues(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := newKeyspace(t)
	for range 20 {
		for range 20 {
			_, _ = apply(t, k, command(random)) // a lease may not exist
		}
		var restored *Keyspace
		if random.IntN(2) == 0 {
			restored = restore(t, k.Snapshot())
		} else {
			present, err := k.Present()
			if err != nil {
				t.Fatal(err)
			}
			restored = restore(t, present)
		}
		if restored.Revision() != k.Revision() {
			t.Fatalf("revision %d, want %d", restored.Revision(), k.Revision())
		}
		for range 50 {
			c := command(random)
			want, wantErr := apply(t, k, c)
			got, err := apply(t, restored, c)
			if !errors.Is(err, wantErr) || wantErr == nil && !proto.Equal(got, want) {
				t.Fatalf("%v: %v, %v; want %v, %v", c, got, err, want, wantErr)
			}
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		k = restored
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Restore(bytes.NewReader([]byte("no snapshot")), Tokens{}); err == nil {
		t.Error("something else was taken for a snapshot")
	}
}
