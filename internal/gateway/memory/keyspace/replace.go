package keyspace

import (
	"bytes"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/protobuf/encoding/protowire"
)

// replacement is a transaction that replaces one object if it has a certain revision, as Kubernetes' API server does. If
// the object has another one, the transaction reads the object or does nothing. A put of a value without options is a
// replacement of any revision.
type replacement struct {
	key, value []byte
	revision   int64
	put        bool
}

// fields reads the fields of an encoded message, each at most once, in the order of their numbers.
type fields struct{ rest []byte }

func (f *fields) end() bool { return len(f.rest) == 0 }

// next removes a field's number if the field is the next one.
func (f *fields) next(number protowire.Number, kind protowire.Type) bool {
	n, k, length := protowire.ConsumeTag(f.rest)
	if length < 0 || n != number || k != kind {
		return false
	}
	f.rest = f.rest[length:]
	return true
}

func (f *fields) bytes(number protowire.Number) ([]byte, bool) {
	if !f.next(number, protowire.BytesType) {
		return nil, false
	}
	b, n := protowire.ConsumeBytes(f.rest)
	if n < 0 {
		return nil, false
	}
	f.rest = f.rest[n:]
	return b, true
}

func (f *fields) varint(number protowire.Number) (uint64, bool) {
	if !f.next(number, protowire.VarintType) {
		return 0, false
	}
	v, n := protowire.ConsumeVarint(f.rest)
	if n < 0 {
		return 0, false
	}
	f.rest = f.rest[n:]
	return v, true
}

// Numbers of fields.
var (
	txnCompare    = fieldOf(&pb.TxnRequest{}, "compare")
	txnSuccess    = fieldOf(&pb.TxnRequest{}, "success")
	txnFailure    = fieldOf(&pb.TxnRequest{}, "failure")
	compareTarget = fieldOf(&pb.Compare{}, "target")
	compareKey    = fieldOf(&pb.Compare{}, "key")
	compareMod    = fieldOf(&pb.Compare{}, "mod_revision")
	opRange       = fieldOf(&pb.RequestOp{}, "request_range")
	opPut         = fieldOf(&pb.RequestOp{}, "request_put")
	putKey        = fieldOf(&pb.PutRequest{}, "key")
	putValue      = fieldOf(&pb.PutRequest{}, "value")
	rangeKey      = fieldOf(&pb.RangeRequest{}, "key")

	answerHeader    = fieldOf(&pb.TxnResponse{}, "header")
	answerSucceeded = fieldOf(&pb.TxnResponse{}, "succeeded")
	answerResponses = fieldOf(&pb.TxnResponse{}, "responses")
	responsePut     = fieldOf(&pb.ResponseOp{}, "response_put")
	putHeader       = fieldOf(&pb.PutResponse{}, "header")
	headerCluster   = fieldOf(&pb.ResponseHeader{}, "cluster_id")
	headerMember    = fieldOf(&pb.ResponseHeader{}, "member_id")
	headerRevision  = fieldOf(&pb.ResponseHeader{}, "revision")
	headerTerm      = fieldOf(&pb.ResponseHeader{}, "raft_term")
)

// parseReplacement returns the replacement that an encoded transaction is. It is strict: every other encoding is decoded
// as a whole, even that of a replacement.
func parseReplacement(transaction []byte) (r replacement, ok bool) {
	t := fields{transaction}
	compare, ok1 := t.bytes(txnCompare)
	success, ok2 := t.bytes(txnSuccess)
	if !ok1 || !ok2 || !t.end() && !readsOne(&t) {
		return r, false
	}
	c := fields{compare}
	target, ok1 := c.varint(compareTarget)
	key, ok2 := c.bytes(compareKey)
	revision, ok3 := c.varint(compareMod)
	if !ok1 || !ok2 || !ok3 || !c.end() || target != uint64(pb.Compare_MOD) || len(key) == 0 {
		return r, false
	}
	op := fields{success}
	put, ok := op.bytes(opPut)
	if !ok || !op.end() {
		return r, false
	}
	r, ok = parsePut(put)
	r.revision, r.put = int64(revision), false
	return r, ok && bytes.Equal(r.key, key)
}

// parsePut returns the replacement that an encoded put is. It is as strict.
func parsePut(put []byte) (r replacement, ok bool) {
	p := fields{put}
	r.put = true
	if r.key, ok = p.bytes(putKey); !ok || len(r.key) == 0 {
		return r, false
	}
	if !p.end() {
		r.value, ok = p.bytes(putValue)
	}
	return r, ok && p.end()
}

// readsOne reports whether the rest of a transaction reads one object, without further options.
func readsOne(t *fields) bool {
	failure, ok := t.bytes(txnFailure)
	if !ok || !t.end() {
		return false
	}
	op := fields{failure}
	read, ok := op.bytes(opRange)
	q := fields{read}
	key, found := q.bytes(rangeKey)
	return ok && op.end() && found && q.end() && len(key) > 0
}

// replace executes a replacement, and returns its revision. It returns 0, and changes nothing, if the object has another
// revision than it must have.
func (k *Keyspace) replace(r *replacement) int64 {
	known := k.revisions[string(r.key)]
	if r.put {
		tx := k.store.Write(traceutil.TODO())
		defer tx.End()
		revision := tx.Put(bytes.Clone(r.key), r.value, lease.NoLease) // the index may keep the key
		if known != nil {
			*known = revision
		}
		return revision
	}
	if known != nil && *known != r.revision {
		return 0
	}
	tx := k.store.Write(traceutil.TODO())
	defer tx.End()
	if known == nil {
		found, err := tx.Range(context.Background(), r.key, nil, mvcc.RangeOptions{FastKeysOnly: true})
		if err != nil {
			return 0
		}
		present := int64(0)
		if len(found.KVs) > 0 {
			present = found.KVs[0].ModRevision
		}
		if present != r.revision {
			return 0
		}
		known = k.remember(r.key)
	}
	key := r.key
	if r.revision == 0 {
		key = bytes.Clone(key) // the index keeps it
	}
	*known = tx.Put(key, r.value, lease.NoLease)
	return *known
}

// maxKnown is the most objects whose revisions are known. A node's lease, say, is replaced every ten seconds.
const maxKnown = 1 << 16

// remember returns where the revision of an object is kept.
func (k *Keyspace) remember(key []byte) *int64 {
	if len(k.revisions) >= maxKnown {
		k.revisions = make(map[string]*int64) // their revisions are looked up again
	}
	known := new(int64)
	k.revisions[string(key)] = known
	return known
}

// forget forgets the revisions of the objects that a command may change.
func (k *Keyspace) forget(q *pb.InternalRaftRequest) {
	switch {
	case len(k.revisions) == 0:
	case q.Put != nil:
		delete(k.revisions, string(q.Put.Key))
	case q.Txn != nil && k.forgetOps(q.Txn.Success) && k.forgetOps(q.Txn.Failure):
	case q.DeleteRange != nil && len(q.DeleteRange.RangeEnd) == 0:
		delete(k.revisions, string(q.DeleteRange.Key))
	case q.Txn != nil, q.DeleteRange != nil, q.LeaseRevoke != nil:
		k.revisions = make(map[string]*int64)
	}
}

// forgetOps returns false if the operations may change more objects than those that it forgets.
func (k *Keyspace) forgetOps(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		switch {
		case op.GetRequestPut() != nil:
			delete(k.revisions, string(op.GetRequestPut().Key))
		case op.GetRequestDeleteRange() != nil && len(op.GetRequestDeleteRange().RangeEnd) == 0:
			delete(k.revisions, string(op.GetRequestDeleteRange().Key))
		case op.GetRequestDeleteRange() != nil, op.GetRequestTxn() != nil:
			return false
		}
	}
	return true
}

// putAnswer is the response to a put.
func putAnswer(revision int64) *pb.PutResponse {
	return &pb.PutResponse{Header: &pb.ResponseHeader{Revision: revision}}
}

// encodePut encodes the response to a put, with the numbers of h in its header.
func encodePut(revision int64, h *pb.ResponseHeader) []byte {
	var space [64]byte
	header := appendVarint(space[:0], headerCluster, h.ClusterId)
	header = appendVarint(header, headerMember, h.MemberId)
	header = appendVarint(header, headerRevision, uint64(revision))
	header = appendVarint(header, headerTerm, h.RaftTerm)
	b := make([]byte, 0, 2+len(header))
	return protowire.AppendBytes(protowire.AppendTag(b, putHeader, protowire.BytesType), header)
}

// replaced is the response to a replacement that took place.
func replaced(revision int64) *pb.TxnResponse {
	return &pb.TxnResponse{
		Header: &pb.ResponseHeader{Revision: revision}, Succeeded: true,
		Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{
			ResponsePut: putAnswer(revision),
		}}},
	}
}

// encodeReplaced encodes the response to a replacement that took place, with the numbers of h in its header.
func encodeReplaced(revision int64, h *pb.ResponseHeader) []byte {
	var space [128]byte
	inner := appendVarint(space[:0], headerRevision, uint64(revision))
	put := 1 + protowire.SizeBytes(len(inner)) // all these numbers are below 16, so their tags have one byte
	op := 1 + protowire.SizeBytes(put)
	header := appendVarint(inner[len(inner):], headerCluster, h.ClusterId)
	header = appendVarint(header, headerMember, h.MemberId)
	header = append(header, inner...)
	header = appendVarint(header, headerTerm, h.RaftTerm)
	b := make([]byte, 0, 1+protowire.SizeBytes(len(header))+2+1+protowire.SizeBytes(op))
	b = protowire.AppendBytes(protowire.AppendTag(b, answerHeader, protowire.BytesType), header)
	b = appendVarint(b, answerSucceeded, 1)
	b = protowire.AppendVarint(protowire.AppendTag(b, answerResponses, protowire.BytesType), uint64(op))
	b = protowire.AppendVarint(protowire.AppendTag(b, responsePut, protowire.BytesType), uint64(put))
	return protowire.AppendBytes(protowire.AppendTag(b, putHeader, protowire.BytesType), inner)
}

// appendVarint appends a field, unless it has its default.
func appendVarint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}
