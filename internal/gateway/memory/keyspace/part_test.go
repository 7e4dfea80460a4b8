package keyspace

import (
	"fmt"
	"testing"
	"unsafe"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// takes returns the memory that a history takes.
func (h *history) takes() (sum int) {
	for _, q := range h.parts {
		sum += cap(q.places)*int(unsafe.Sizeof(place{})) + cap(q.values)*int(unsafe.Sizeof(span{})) + cap(q.slab)
		for _, value := range q.large {
			sum += cap(value)
		}
	}
	return sum
}

// TestHistoryIsPacked: after a compaction a history takes little more than its objects and their places.
func TestHistoryIsPacked(t *testing.T) {
	for _, valueBytes := range []int{10, 400, 3000, largeBytes} {
		t.Run(fmt.Sprint(valueBytes), func(t *testing.T) {
			k := newKeyspace(t)
			defer k.Close()
			const objects = 4000
			put := func(i int) {
				p := &pb.PutRequest{Key: fmt.Appendf(nil, "%05d", i), Value: make([]byte, valueBytes)}
				if _, err := apply(t, k, &pb.InternalRaftRequest{Put: p}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range objects {
				put(i)
			}
			for i := 0; i < objects; i += 5 {
				put(i)
			}
			if _, err := k.compact(k.Revision()); err != nil {
				t.Fatal(err)
			}
			<-k.Settled()
			k.tidy()
			k.heap.mu.RLock() // the compaction tidies too
			defer k.heap.mu.RUnlock()
			h := &k.heap.revisions
			needs := int(h.bytes) + objects*int(unsafe.Sizeof(place{})+unsafe.Sizeof(span{})-nameBytes)
			if most := needs + needs/8 + slabBytes; h.takes() > most {
				t.Errorf("the history of %d objects takes %d bytes, want at most %d", objects, h.takes(), most)
			}
		})
	}
}

// TestReadValuesStay: what was read is the same after its part was appended to, shrunk and joined.
func TestReadValuesStay(t *testing.T) {
	h := newHeap()
	at := func(i int) place { return placeAt(mvcc.Revision{Main: int64(i)}, false) }
	const entries = 4 * partEntries
	var read [][]byte
	for i := range entries {
		h.revisions.put(at(i), fmt.Appendf(nil, "value %d", i))
		read = append(read, h.revisions.get(at(i)))
	}
	for i := range entries {
		if i%8 > 0 {
			h.revisions.remove(at(i))
		}
	}
	h.revisions.tidy(0, entries)
	for i := range entries {
		h.revisions.put(at(entries+i), []byte("another value"))
	}
	for i, value := range read {
		if want := fmt.Sprintf("value %d", i); string(value) != want {
			t.Fatalf("%q was read, want %q", value, want)
		}
	}
}
