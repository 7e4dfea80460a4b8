package keyspace

import (
	"bytes"
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// FewObjects are so few that the memory of an answer's other parts does not count.
const FewObjects = measuredAtATime

// Found is the answer to a range. It has the objects encoded, as the store has them, and does not copy them.
type Found struct {
	answer  *pb.RangeResponse // without them; nil: there is no answer
	objects [][]byte
	size    int // of the objects as a field of the answer
}

// FoundOf is an answer as another gateway gave it.
func FoundOf(a *pb.RangeResponse) *Found { return &Found{answer: a} }

// Answered reports whether there is an answer. See [Keyspace.Find].
func (f *Found) Answered() bool { return f.answer != nil }

// GetHeader returns the answer's header, to be completed.
func (f *Found) GetHeader() *pb.ResponseHeader {
	if f == nil {
		return nil
	}
	return f.answer.GetHeader()
}

var rangeObjects = fieldOf(&pb.RangeResponse{}, "kvs")

// Size is the size of the encoded answer.
func (f *Found) Size() int { return proto.Size(f.answer) + f.size }

// Append appends the encoded answer.
func (f *Found) Append(b []byte) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(b, f.answer)
	for _, o := range f.objects {
		b = protowire.AppendBytes(protowire.AppendTag(b, rangeObjects, protowire.BytesType), o)
	}
	return b, err
}

// Answer is the answer without the objects that it has encoded.
func (f *Found) Answer() *pb.RangeResponse { return f.answer }

// Len is the number of objects.
func (f *Found) Len() int { return len(f.objects) + len(f.answer.GetKvs()) }

// LastKey is that of the last object.
func (f *Found) LastKey() []byte {
	if n := len(f.objects); n > 0 {
		return keyOf(f.objects[n-1])
	}
	kvs := f.answer.GetKvs()
	return kvs[len(kvs)-1].Key
}

// Cut takes the first objects out of the answer, as many as fit into a number of bytes, but at least one if there are
// some. It returns an answer that has nothing else.
func (f *Found) Cut(most int) *Found {
	piece := FoundOf(new(pb.RangeResponse))
	n, kvs := 0, f.answer.GetKvs()
	for _, o := range f.objects {
		size := protowire.SizeTag(rangeObjects) + protowire.SizeBytes(len(o))
		if n > 0 && piece.size+size > most {
			break
		}
		n, piece.size = n+1, piece.size+size
	}
	piece.objects, f.objects, f.size = f.objects[:n], f.objects[n:], f.size-piece.size
	n = 0
	for size := 0; n < len(kvs); n++ { // keys only, or of another gateway
		if size += proto.Size(kvs[n]); n > 0 && size > most {
			break
		}
	}
	piece.answer.Kvs, f.answer.Kvs = kvs[:n], kvs[n:]
	return piece
}

var streamedAnswer = fieldOf(&pb.RangeStreamResponse{}, "range_response")

// Streamed is a piece of an answer as RangeStream sends it.
type Streamed struct{ *Found }

// Size is the size of the encoded piece.
func (s Streamed) Size() int {
	return protowire.SizeTag(streamedAnswer) + protowire.SizeBytes(s.Found.Size())
}

// Append appends the encoded piece.
func (s Streamed) Append(b []byte) ([]byte, error) {
	b = protowire.AppendTag(b, streamedAnswer, protowire.BytesType)
	return s.Found.Append(protowire.AppendVarint(b, uint64(s.Found.Size())))
}

// Message is the answer with its objects decoded.
func (f *Found) Message() (*pb.RangeResponse, error) {
	for _, o := range f.objects {
		kv := new(mvccpb.KeyValue)
		if err := proto.Unmarshal(o, kv); err != nil {
			return nil, err
		}
		f.answer.Kvs = append(f.answer.Kvs, kv)
	}
	f.objects, f.size = nil, 0
	return f.answer, nil
}

// Find answers a range. It gives no answer to one that may have more than most objects, or whose objects have to be
// decoded to filter or sort them: [Keyspace.RangeReads] measures it. 0: it answers every range.
func (k *Keyspace) Find(ctx context.Context, q *pb.RangeRequest, most int64) (*Found, error) {
	switch {
	case !q.CountOnly && !isFiltered(q):
		return k.find(q, most)
	case !q.CountOnly && len(q.RangeEnd) > 0 && most > 0:
		return new(Found), nil
	}
	a, _, err := txn.Range(ctx, quiet, k.store, q, true)
	return FoundOf(a), err
}

// isFiltered reports whether a range leaves objects out by their revisions, or has another order than that of the keys.
func isFiltered(q *pb.RangeRequest) bool {
	return q.SortTarget != pb.RangeRequest_KEY || q.SortOrder == pb.RangeRequest_DESCEND || txn.HasRevisionFilters(q)
}

// find answers a range that is not filtered. The index says which objects it has.
func (k *Keyspace) find(q *pb.RangeRequest, most int64) (*Found, error) {
	read := k.store.Read(mvcc.ConcurrentReadTxMode, traceutil.TODO()) // a compaction waits for its end
	defer read.End()
	o := optionsOf(q)
	o.FastKeysOnly, o.WithTotalCount = true, true
	if most > 0 && (o.Limit <= 0 || o.Limit > most) {
		o.Limit = most + 1
	}
	found, err := read.Range(context.Background(), q.Key, endOf(q.RangeEnd), o)
	if err != nil {
		return nil, err
	}
	if most > 0 && int64(len(found.KVs)) > most {
		return new(Found), nil
	}
	a := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: found.Rev}, Count: int64(found.Count)}
	if q.Limit > 0 && int64(len(found.KVs)) > q.Limit {
		found.KVs, a.More = found.KVs[:q.Limit], true
	}
	if q.KeysOnly {
		a.Kvs = found.KVs
		return FoundOf(a), nil
	}
	f := &Found{answer: a, objects: k.heap.objects(found.KVs)}
	for i, o := range f.objects {
		if o == nil {
			kv := found.KVs[i]
			return nil, fmt.Errorf("%w: revision %d of the key %q is not there", ErrBroken, kv.ModRevision, kv.Key)
		}
		f.size += protowire.SizeTag(rangeObjects) + protowire.SizeBytes(len(o))
	}
	return f, nil
}

// objects returns the encoded objects that keys got at their revisions; nil: it is not there.
func (h *heap) objects(keys []*mvccpb.KeyValue) [][]byte {
	all := make([][]byte, len(keys))
	h.mu.RLock()
	defer h.mu.RUnlock()
	last := cursor{h: &h.revisions}
	for i, kv := range keys {
		all[i] = last.object(uint64(kv.ModRevision), kv.Key)
	}
	return all
}

// cursor is at an entry of a history. Keys that were put together, in their order, are found one after the other.
type cursor struct {
	h    *history
	p, i int
}

// object goes to the object that a key got at a revision, and returns it.
func (c *cursor) object(revision uint64, key []byte) []byte {
	if o := c.seek(revision, key); o != nil {
		return o
	}
	c.p, c.i = c.h.at(place{main: revision})
	return c.seek(revision, key)
}

// seek is object for one that is not before the cursor, if that is at the revision.
func (c *cursor) seek(revision uint64, key []byte) []byte {
	for ; c.p < len(c.h.parts); c.p, c.i = c.p+1, 0 {
		for q := c.h.parts[c.p]; c.i < len(q.places); c.i++ {
			if q.places[c.i].main != revision {
				return nil
			}
			if o := q.value(c.i); o != nil && !q.places[c.i].deleted() && bytes.Equal(keyOf(o), key) {
				return o
			}
		}
	}
	return nil
}

// keyOf returns the key of an encoded object; nil: it cannot be decoded.
func keyOf(object []byte) []byte {
	f := fields{object}
	if key, ok := f.bytes(fieldKey); ok { // etcd's store writes it first
		return key
	}
	key, _, _ := keyAndRevision(object)
	return key
}
