package memory

import (
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// requests makes random requests of few keys, so that they meet.
type requests struct {
	*rand.Rand
	revision int64 // a revision that the stores may have
}

var someKeys = []string{"a", "aa", "ab", "b", "ba", "c", "\x00", "a\xff", "\xff", "y", "z", "zz"}

func (r *requests) one(n int) bool { return r.IntN(n) == 0 }

func (r *requests) key() []byte {
	if r.one(200) {
		return nil
	}
	return []byte(someKeys[r.IntN(len(someKeys))])
}

func (r *requests) end() []byte {
	switch r.IntN(6) {
	case 0:
		return []byte{0}
	case 1, 2:
		return r.key()
	}
	return nil
}

// at is a revision around those that exist.
func (r *requests) at() int64 {
	switch r.IntN(8) {
	case 0:
		return r.revision - int64(r.IntN(20))
	case 1:
		return r.revision + int64(r.IntN(3)) - 1
	case 2:
		return int64(r.IntN(4)) - 1
	}
	return 0
}

func (r *requests) lease() int64 {
	if !r.one(4) {
		return 0
	}
	return int64(r.IntN(6))
}

func (r *requests) read() *pb.RangeRequest {
	q := &pb.RangeRequest{
		Key: r.key(), RangeEnd: r.end(), Limit: int64(r.IntN(6)) - 1, SortOrder: pb.RangeRequest_SortOrder(r.IntN(3)),
		SortTarget: pb.RangeRequest_SortTarget(r.IntN(5)), KeysOnly: r.one(5), CountOnly: r.one(6), Serializable: r.one(4),
	}
	if r.one(4) {
		q.Revision = r.at()
	}
	if r.one(6) {
		q.MinModRevision, q.MaxModRevision = r.at(), r.at()
	}
	if r.one(6) {
		q.MinCreateRevision, q.MaxCreateRevision = r.at(), r.at()
	}
	if r.one(300) {
		q.SortTarget = 99
	}
	return q
}

func (r *requests) put() *pb.PutRequest {
	q := &pb.PutRequest{Key: r.key(), Value: fmt.Append(nil, r.IntN(5)), Lease: r.lease(), PrevKv: r.one(2)}
	switch r.IntN(8) {
	case 0:
		q.IgnoreValue, q.Value = true, nil
	case 1:
		q.IgnoreLease, q.Lease = true, 0
	case 2:
		q.IgnoreValue = r.one(4)
	}
	return q
}

func (r *requests) remove() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: r.key(), RangeEnd: r.end(), PrevKv: r.one(2)}
}

func (r *requests) compare() *pb.Compare {
	c := &pb.Compare{Key: r.key(), RangeEnd: r.end(), Result: pb.Compare_CompareResult(r.IntN(4))}
	if r.one(2) {
		c.RangeEnd = nil
	}
	switch c.Target = pb.Compare_CompareTarget(r.IntN(5)); r.IntN(6) {
	case 0:
		c.TargetUnion = &pb.Compare_Version{Version: int64(r.IntN(4))}
	case 1:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: r.at()}
	case 2:
		c.Target, c.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: r.at()}
	case 3:
		c.Target, c.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: fmt.Append(nil, r.IntN(5))}
	case 4:
		c.TargetUnion = &pb.Compare_Lease{Lease: r.lease()}
	}
	return c
}

func (r *requests) ops(depth int) (ops []*pb.RequestOp) {
	n := r.IntN(4)
	if r.one(2000) {
		n = 120 + r.IntN(20)
	}
	for range n {
		switch r.IntN(5) {
		case 0:
			q := r.read()
			if !r.one(20) {
				q.Revision = 0 // with a write a memory keyspace refuses it
			}
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: q}})
		case 1, 2:
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r.put()}})
		case 3:
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r.remove()}})
		default:
			if depth < 3 {
				ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r.transaction(depth + 1)}})
			}
		}
	}
	return ops
}

func (r *requests) transaction(depth int) *pb.TxnRequest {
	q := new(pb.TxnRequest)
	for range r.IntN(3) {
		q.Compare = append(q.Compare, r.compare())
	}
	q.Success, q.Failure = r.ops(depth), r.ops(depth)
	return q
}

// replacement is what Kubernetes' API server sends.
func (r *requests) replacement() *pb.TxnRequest {
	key := r.key()
	q := &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: r.at()},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: key, Value: fmt.Append(nil, r.IntN(5)), Lease: r.lease(),
		}}}},
	}
	if r.one(2) {
		q.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}}
	}
	return q
}

// kinds are the requests that an input may be. An input's first byte is an index.
var kinds = []proto.Message{
	&pb.PutRequest{}, &pb.DeleteRangeRequest{}, &pb.RangeRequest{}, &pb.TxnRequest{}, &pb.CompactionRequest{},
	&pb.LeaseGrantRequest{}, &pb.LeaseRevokeRequest{},
}

// next makes an input: the kind and the encoding of a request, or of something like one.
func (r *requests) next() []byte {
	kind, q := 3, proto.Message(nil)
	switch n := r.IntN(100); {
	case n < 25:
		kind, q = 0, r.put()
	case n < 35:
		kind, q = 1, r.remove()
	case n < 50:
		kind, q = 2, r.read()
	case n < 60:
		q = r.replacement()
	case n < 90:
		q = r.transaction(0)
	case n < 91:
		kind, q = 4, &pb.CompactionRequest{Revision: r.revision - int64(r.IntN(30)) + 2, Physical: r.one(2)}
	case n < 95:
		ttl := []int64{1000, 5000, 9_000_000_001, -5, 0}[r.IntN(5)]
		kind, q = 5, &pb.LeaseGrantRequest{ID: int64(r.IntN(6)), TTL: ttl}
	default:
		kind, q = 6, &pb.LeaseRevokeRequest{ID: int64(r.IntN(6))}
	}
	input, err := proto.MarshalOptions{}.MarshalAppend([]byte{byte(kind)}, q)
	if err != nil {
		panic(err) // of our own request
	}
	if r.one(4) {
		input = append(input[:1:1], r.damage(input[1:])...)
	}
	return input
}

// damage changes bytes of an encoding, or makes other ones.
func (r *requests) damage(b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b) + 1)
		switch r.IntN(6) {
		case 0: // cut
			b = b[:at]
		case 1: // repeat
			b = append(b, b[at:]...)
		case 2: // an unknown field
			b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(1+r.IntN(30)), protowire.VarintType), r.Uint64())
		case 3: // random bytes
			for range r.IntN(12) {
				b = append(b, byte(r.Uint32()))
			}
		default:
			if at < len(b) {
				b[at] ^= 1 << r.IntN(8)
			}
		}
	}
	return b
}
