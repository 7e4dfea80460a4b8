package keyspace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// swap makes a transaction that replaces an object.
func swap(key, value []byte, revision int64) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: revision},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value}}}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	}
}

// other makes a command that changes objects and is no replacement.
func other(random *rand.Rand, key []byte) *pb.InternalRaftRequest {
	remove := &pb.DeleteRangeRequest{Key: key}
	if random.IntN(3) == 0 {
		remove.RangeEnd = []byte("l")
	}
	deletion := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: remove}}
	put := &pb.PutRequest{Key: key, Value: []byte("other")}
	switch random.IntN(5) {
	case 0:
		return &pb.InternalRaftRequest{DeleteRange: remove}
	case 1:
		return &pb.InternalRaftRequest{Put: put}
	case 2:
		return &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{{
			Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{deletion}}},
		}}}}
	case 3:
		q := swap(key, []byte("none"), 1) // that object has another revision
		q.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}
		return &pb.InternalRaftRequest{Txn: q}
	}
	return &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{deletion}}}
}

// TestReplacement compares the answers to replacements with those of etcd's own code in another keyspace, while other
// commands change the objects.
func TestReplacement(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ours, theirs := newKeyspace(t), newKeyspace(t)
	defer ours.Close()
	defer theirs.Close()
	for _, k := range []*Keyspace{ours, theirs} {
		apply(t, k, &pb.InternalRaftRequest{LeaseGrant: &pb.LeaseGrantRequest{ID: 1, TTL: 1000}})
	}
	header := &pb.ResponseHeader{ClusterId: random.Uint64(), MemberId: random.Uint64(), RaftTerm: 3}
	replaced := 0
	for range 4000 {
		key := fmt.Appendf(nil, "k%d", random.IntN(4))
		revision := max(0, ours.Revision()-int64(random.IntN(6)))
		if random.IntN(8) == 0 {
			revision = 0
		}
		q := swap(key, fmt.Append(nil, random.Uint32()), revision)
		put := q.Success[0].GetRequestPut()
		put.PrevKv = random.IntN(8) == 0
		put.Lease = int64(random.IntN(8) / 7)
		if random.IntN(8) == 0 {
			put.Value = nil
		}
		request := &pb.InternalRaftRequest{Txn: q}
		if random.IntN(6) == 0 {
			request = other(random, key)
		}
		want, err := theirs.execute(request)
		if err != nil {
			t.Fatal(err)
		}
		command, err := Decode(encode(t, request))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Apply(&command)
		if err != nil || !proto.Equal(got.Message(), want) {
			t.Fatalf("%v: %v, etcd's is %v (%v)", request, got.Message(), want, err)
		}
		compareEncoded(t, &got, want, header)
		if got.message == nil {
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("nothing was replaced")
	}
	compareAll(t, ours, theirs)
}

// TestKnownRevisionsAreBounded replaces more objects than have known revisions.
func TestKnownRevisionsAreBounded(t *testing.T) {
	k := newKeyspace(t)
	defer k.Close()
	revision := make(map[int]int64)
	replace := func(i int) {
		command := CommandOf(nil)
		command.replacement = replacement{key: fmt.Appendf(nil, "k%d", i), revision: revision[i]}
		answer, err := k.Apply(&command)
		if err != nil || answer.replaced == 0 {
			t.Fatalf("object %d of revision %d is not replaced: %v", i, revision[i], err)
		}
		revision[i] = answer.replaced
	}
	for i := range maxKnown {
		replace(i)
	}
	for i := range 1000 {
		replace(maxKnown + i) // a new one
		replace(i)            // one that was known
	}
	if len(k.revisions) > maxKnown {
		t.Errorf("%d revisions are known; want at most %d", len(k.revisions), maxKnown)
	}
}

// compareEncoded compares the encoding of an answer with a response.
func compareEncoded(t *testing.T, got *Answer, want proto.Message, header *pb.ResponseHeader) {
	t.Helper()
	encoded, err := got.Encode(header)
	if err != nil {
		t.Fatal(err)
	}
	h := want.(headed).GetHeader()
	h.ClusterId, h.MemberId, h.RaftTerm = header.ClusterId, header.MemberId, header.RaftTerm
	if text := encode(t, want); !bytes.Equal(encoded, text) {
		t.Fatalf("%v is encoded as %x, not as %x", want, encoded, text)
	}
}

func compareAll(t *testing.T, ours, theirs *Keyspace) {
	t.Helper()
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

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDecodePlain decodes as replacements only transactions that replace one object, in every encoding.
func TestDecodePlain(t *testing.T) {
	key, value := []byte("k"), []byte("v")
	plain := encode(t, swap(key, value, 7))
	command := func(transaction []byte) []byte {
		whole := encode(t, &pb.InternalRaftRequest{Txn: &pb.TxnRequest{}})
		return append(append(whole[:1:1], byte(len(transaction))), transaction...)
	}
	if c, ok := DecodePlain(command(plain)); !ok || c.replacement.revision != 7 ||
		!bytes.Equal(c.replacement.key, key) || !bytes.Equal(c.replacement.value, value) {
		t.Fatalf("a replacement was decoded as %v (%v)", c.replacement, ok)
	}
	change := func(do func(q *pb.TxnRequest)) []byte {
		q := swap(key, value, 7)
		do(q)
		return encode(t, q)
	}
	read := func(q *pb.TxnRequest) *pb.RangeRequest { return q.Failure[0].GetRequestRange() }
	put := func(q *pb.TxnRequest) *pb.PutRequest { return q.Success[0].GetRequestPut() }
	for name, transaction := range map[string][]byte{
		"nothing":             nil,
		"two comparisons":     change(func(q *pb.TxnRequest) { q.Compare = append(q.Compare, q.Compare[0]) }),
		"no comparison":       change(func(q *pb.TxnRequest) { q.Compare = nil }),
		"not equal":           change(func(q *pb.TxnRequest) { q.Compare[0].Result = pb.Compare_NOT_EQUAL }),
		"another target":      change(func(q *pb.TxnRequest) { q.Compare[0].Target = pb.Compare_CREATE }),
		"another union":       change(func(q *pb.TxnRequest) { q.Compare[0].TargetUnion = &pb.Compare_Version{Version: 7} }),
		"no union":            change(func(q *pb.TxnRequest) { q.Compare[0].TargetUnion = nil }),
		"a range is compared": change(func(q *pb.TxnRequest) { q.Compare[0].RangeEnd = []byte("l") }),
		"no key": change(func(q *pb.TxnRequest) {
			q.Compare[0].Key, put(q).Key, read(q).Key = nil, nil, nil
		}),
		"two puts":         change(func(q *pb.TxnRequest) { q.Success = append(q.Success, q.Success[0]) }),
		"another key":      change(func(q *pb.TxnRequest) { put(q).Key = []byte("l") }),
		"a lease":          change(func(q *pb.TxnRequest) { put(q).Lease = 1 }),
		"its lease":        change(func(q *pb.TxnRequest) { put(q).IgnoreLease = true }),
		"its value":        change(func(q *pb.TxnRequest) { put(q).IgnoreValue = true }),
		"previous value":   change(func(q *pb.TxnRequest) { put(q).PrevKv = true }),
		"a put else":       change(func(q *pb.TxnRequest) { q.Failure = q.Success }),
		"two reads":        change(func(q *pb.TxnRequest) { q.Failure = append(q.Failure, q.Failure[0]) }),
		"a read of a key":  change(func(q *pb.TxnRequest) { read(q).Key = nil }),
		"a read of many":   change(func(q *pb.TxnRequest) { read(q).RangeEnd = []byte("l") }),
		"an earlier read":  change(func(q *pb.TxnRequest) { read(q).Revision = 3 }),
		"encoded twice":    append(bytes.Clone(plain), plain...),
		"torn":             plain[:len(plain)-1],
		"an unknown field": append(bytes.Clone(plain), 0xf8, 0x01, 0x01),
		"another order":    append(encode(t, &pb.TxnRequest{Success: swap(key, value, 7).Success}), plain...),
	} {
		if _, ok := DecodePlain(command(transaction)); ok {
			t.Errorf("%s: a replacement", name)
		}
	}
	for name, encoded := range map[string][]byte{
		"another command": encode(t, &pb.InternalRaftRequest{DeleteRange: &pb.DeleteRangeRequest{Key: key}}),
		"two commands":    append(command(plain), command(plain)...),
		"an ID":           append(command(plain), encode(t, &pb.InternalRaftRequest{ID: 1})...),
		"nothing":         nil,
	} {
		if _, ok := DecodePlain(encoded); ok {
			t.Errorf("%s: a replacement", name)
		}
	}
	if _, ok := DecodePlain(command(change(func(q *pb.TxnRequest) { q.Failure = nil }))); !ok {
		t.Error("one that reads nothing is none")
	}
}

// TestDecodePut decodes as puts only those of a value.
func TestDecodePut(t *testing.T) {
	key, value := []byte("k"), []byte("v")
	putOf := func(q *pb.PutRequest) []byte { return encode(t, &pb.InternalRaftRequest{Put: q}) }
	for _, want := range [][]byte{value, nil} {
		if c, ok := DecodePlain(putOf(&pb.PutRequest{Key: key, Value: want})); !ok || !c.replacement.put ||
			!bytes.Equal(c.replacement.key, key) || !bytes.Equal(c.replacement.value, want) {
			t.Fatalf("a put was decoded as %v (%v)", c.replacement, ok)
		}
	}
	put := putOf(&pb.PutRequest{Key: key, Value: value})
	for name, encoded := range map[string][]byte{
		"no key":           putOf(&pb.PutRequest{Value: value}),
		"a lease":          putOf(&pb.PutRequest{Key: key, Value: value, Lease: 1}),
		"its lease":        putOf(&pb.PutRequest{Key: key, Value: value, IgnoreLease: true}),
		"its value":        putOf(&pb.PutRequest{Key: key, IgnoreValue: true}),
		"previous value":   putOf(&pb.PutRequest{Key: key, Value: value, PrevKv: true}),
		"two puts":         append(bytes.Clone(put), put...),
		"a user's":         append(encode(t, &pb.InternalRaftRequest{Header: &pb.RequestHeader{Username: "u"}}), put...),
		"with transaction": append(bytes.Clone(put), encode(t, &pb.InternalRaftRequest{Txn: swap(key, value, 7)})...),
		"torn":             put[:len(put)-1],
	} {
		if _, ok := DecodePlain(encoded); ok {
			t.Errorf("%s: a put", name)
		}
	}
}

// apply applies a command as etcd encodes it.
func apply(t *testing.T, k *Keyspace, request *pb.InternalRaftRequest) (proto.Message, error) {
	t.Helper()
	command, err := Decode(encode(t, request))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := k.Apply(&command)
	return answer.Message(), err
}
