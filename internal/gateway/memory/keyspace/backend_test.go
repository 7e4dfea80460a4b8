package keyspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// entries of a bucket.
func entries(t *testing.T, b backend.UnsafeReader, bucket backend.Bucket) (all [][]byte) {
	t.Helper()
	if err := b.UnsafeForEach(bucket, func(k, v []byte) error {
		all = append(all, bytes.Clone(k), bytes.Clone(v))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// compareBuckets compares the contents of buckets, and the size of ours with them. The caller holds both transactions.
func compareBuckets(t *testing.T, ours *heap, theirs backend.Backend, buckets []backend.Bucket) {
	t.Helper()
	size := 0
	for _, b := range buckets {
		got := entries(t, ours.BatchTx(), b)
		if want := entries(t, theirs.BatchTx(), b); !equal(got, want) {
			t.Errorf("bucket %v: %d entries, want %d", b, len(got)/2, len(want)/2)
		}
		size += len(bytes.Join(got, nil))
	}
	if ours.SizeInUse() != int64(size) {
		t.Errorf("%d bytes, want %d", ours.SizeInUse(), size)
	}
}

// TestHeap: the buckets in memory have the contents of etcd's own after the same changes.
func TestHeap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	config := backend.DefaultBackendConfig(zap.NewNop())
	config.Path, config.UnsafeNoFsync = filepath.Join(t.TempDir(), "db"), true
	theirs, ours := backend.New(config), newHeap()
	defer theirs.Close()
	buckets := []backend.Bucket{schema.Key, schema.Meta, schema.Lease}
	both := []backend.BatchTx{ours.BatchTx(), theirs.BatchTx()}
	for _, tx := range both {
		tx.LockOutsideApply()
		defer tx.Unlock()
		for _, b := range buckets {
			tx.UnsafeCreateBucket(b)
		}
	}
	key := func(revision int) []byte {
		return mvcc.RevToBytes(mvcc.Revision{Main: int64(revision)}, mvcc.NewRevBytes())
	}
	newest := 0
	for range 20_000 {
		bucket, old := buckets[random.IntN(8)%3], key(random.IntN(newest+1))
		value := fmt.Append(nil, random.Uint32())
		switch random.IntN(60) {
		case 0:
			value = make([]byte, random.IntN(2*largeBytes))
		case 1, 2, 3:
			value = make([]byte, random.IntN(largeBytes))
		case 4:
			ours.revisions.tidy(random.IntN(len(ours.revisions.parts)+1), tidyParts)
		}
		do := random.IntN(10)
		switch {
		case do < 6:
			newest++
		case bucket.ID() != schema.Key.ID():
			old = key(random.IntN(10))
		}
		for _, tx := range both {
			switch {
			case do < 6:
				tx.UnsafeSeqPut(schema.Key, key(newest), value)
			case do < 7:
				tx.UnsafePut(bucket, old, value)
			default:
				tx.UnsafeDelete(bucket, old)
			}
		}
		if random.IntN(50) > 0 {
			continue
		}
		from, to, limit := key(random.IntN(newest+1)), key(random.IntN(newest+1)), int64(random.IntN(5))
		for _, end := range [][]byte{nil, to} {
			k, v := both[0].UnsafeRange(schema.Key, from, end, limit)
			wantK, wantV := both[1].UnsafeRange(schema.Key, from, end, limit)
			if !equal(k, wantK) || !equal(v, wantV) {
				t.Fatalf("%x to %x: %x, %x, want %x, %x", from, end, k, v, wantK, wantV)
			}
		}
	}
	compareBuckets(t, ours, theirs, buckets)
	for _, b := range buckets {
		both[0].UnsafeDeleteBucket(b)
	}
	if n := ours.SizeInUse(); n != 0 || len(entries(t, both[0], schema.Key)) > 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestReadsBesideCompaction: reads of a revision see that revision, or that it was compacted, while others write and
// compact. An update has its revision as its value.
func TestReadsBesideCompaction(t *testing.T) {
	k := newKeyspace(t)
	defer k.Close()
	const objects, updates, kept = 20, 40_000, 500
	done := make(chan struct{})
	var reading sync.WaitGroup
	defer reading.Wait()
	for range 4 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				at := max(1, k.Revision()-rand.Int64N(2*kept))
				r, err := k.store.Range(context.Background(), everything.key, everything.end, mvcc.RangeOptions{Rev: at})
				if errors.Is(err, mvcc.ErrCompacted) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				newest := int64(1)
				for _, kv := range r.KVs {
					newest = max(newest, kv.ModRevision)
					if string(kv.Value) != fmt.Sprint(kv.ModRevision) {
						t.Errorf("%s has %s at revision %d", kv.Key, kv.Value, kv.ModRevision)
					}
				}
				if newest != at {
					t.Errorf("the newest object at revision %d is of %d", at, newest)
				}
			}
		})
	}
	defer close(done)
	for i := range int64(updates) {
		next := k.Revision() + 1
		key := fmt.Appendf(nil, "k%d", rand.IntN(objects))
		if _, err := apply(t, k, &pb.InternalRaftRequest{
			Put: &pb.PutRequest{Key: key, Value: fmt.Append(nil, next)},
		}); err != nil {
			t.Fatal(err)
		}
		if i%kept == kept-1 {
			c := &pb.InternalRaftRequest{Compaction: &pb.CompactionRequest{Revision: next - kept}}
			if _, err := apply(t, k, c); err != nil && !errors.Is(err, mvcc.ErrCompacted) {
				t.Fatal(err)
			}
		}
	}
}
