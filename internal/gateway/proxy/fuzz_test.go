package proxy

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// encoded encodes a message of a seed.
func encoded(f *testing.F, m proto.Message) []byte {
	f.Helper()
	text, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return text
}

// FuzzPlainRead: a request is taken for a plain read only if it is one, as protobuf decodes it. One that etcd's clients
// encode is.
func FuzzPlainRead(f *testing.F) {
	f.Add(encoded(f, &pb.RangeRequest{Key: []byte("k"), Limit: 1}))
	f.Add(encoded(f, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Revision: 5}))
	f.Add([]byte{0x0a, 1, 'a', 0x0a, 1, 'b', 0x18, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		key, ok := plainRead(message)
		var r pb.RangeRequest
		if err := proto.Unmarshal(message, &r); err != nil {
			if ok {
				t.Fatalf("%x is taken for a read of %q: %v", message, key, err)
			}
			return
		}
		plain := &pb.RangeRequest{Key: r.Key, Limit: r.Limit}
		isPlain := len(r.Key) > 0 && r.Limit >= 0 && proto.Equal(&r, plain)
		if ok && (!isPlain || !bytes.Equal(key, r.Key)) {
			t.Fatalf("%v is taken for a read of %q", &r, key)
		}
		if canonical, err := proto.Marshal(plain); err == nil && isPlain && bytes.Equal(canonical, message) && !ok {
			t.Fatalf("%v is not taken for a plain read", &r)
		}
	})
}

// FuzzRevision: the revision of an answer is what protobuf decodes, if the answer is encoded as etcd encodes it, in one part
// or in two. Other bytes do no harm.
func FuzzRevision(f *testing.F) {
	header := &pb.ResponseHeader{ClusterId: 1 << 63, MemberId: 2, Revision: 3, RaftTerm: 4}
	answer := &pb.RangeResponse{Header: header, Kvs: nil, Count: 7}
	f.Add(encoded(f, answer), 3)
	f.Add(encoded(f, &pb.RangeStreamResponse{RangeResponse: answer}), 100)
	f.Fuzz(func(t *testing.T, message []byte, at int) {
		at = max(0, min(at, len(message)))
		parts := mem.BufferSlice{mem.SliceBuffer(message[:at]), mem.SliceBuffer(message[at:])}
		for _, nested := range []bool{false, true} {
			whole := revision(mem.BufferSlice{mem.SliceBuffer(message)}, nested)
			var header *pb.ResponseHeader
			m := proto.Message(new(pb.RangeResponse))
			if nested {
				m = new(pb.RangeStreamResponse)
			}
			if proto.Unmarshal(message, m) != nil {
				continue
			}
			switch m := m.(type) {
			case *pb.RangeResponse:
				header = m.Header
			case *pb.RangeStreamResponse:
				header = m.RangeResponse.GetHeader()
			}
			if canonical, err := proto.Marshal(m); err != nil || !bytes.Equal(canonical, message) || unknown(m) {
				continue
			}
			want := header.GetRevision()
			if whole != want {
				t.Fatalf("%v: revision %d", m, whole)
			}
			if got := revision(parts, nested); at >= enoughForHeader && got != want || at == 0 && got != want {
				t.Fatalf("%v in parts of %d and %d bytes: revision %d", m, at, len(message)-at, got)
			}
		}
	})
}

// unknown reports whether an answer has fields that etcd does not know.
func unknown(m proto.Message) bool {
	text, err := proto.Marshal(m)
	stripped := m.ProtoReflect().New().Interface()
	return err != nil || proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, stripped) != nil || !proto.Equal(m, stripped)
}
