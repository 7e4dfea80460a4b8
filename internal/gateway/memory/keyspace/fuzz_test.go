package keyspace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"google.golang.org/protobuf/proto"
)

// marshal encodes a message of a seed.
func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	text, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// FuzzReplacement: a command is taken for a replacement or a put only if protobuf decodes it as that.
func FuzzReplacement(f *testing.F) {
	for _, q := range []*pb.TxnRequest{
		swap([]byte("k"), []byte("value"), 7), swap([]byte("k"), nil, 0), {Success: swap([]byte("k"), nil, 1).Success},
	} {
		f.Add(marshal(f, &pb.InternalRaftRequest{Txn: q}))
		q.Failure = nil
		f.Add(marshal(f, &pb.InternalRaftRequest{Txn: q}))
		f.Add(marshal(f, &pb.InternalRaftRequest{Put: q.Success[0].GetRequestPut()}))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		c, ok := DecodePlain(encoded)
		if !ok {
			return
		}
		var got pb.InternalRaftRequest
		if err := proto.Unmarshal(encoded, &got); err != nil {
			t.Fatalf("taken for a replacement: %v", err)
		}
		r := &c.replacement
		if r.put {
			want := &pb.PutRequest{Key: r.key, Value: r.value}
			if len(r.key) == 0 || !proto.Equal(&got, &pb.InternalRaftRequest{Put: want}) {
				t.Fatalf("%v is taken for %v", &got, want)
			}
			return
		}
		want := swap(r.key, r.value, r.revision)
		if want.Failure = nil; len(got.Txn.GetFailure()) > 0 { // a read of one key, perhaps another one
			key := got.Txn.Failure[0].GetRequestRange().GetKey()
			if len(key) == 0 {
				t.Fatalf("%v reads no key", &got)
			}
			want.Failure = swap(key, nil, 0).Failure
		}
		if !proto.Equal(&got, &pb.InternalRaftRequest{Txn: want}) {
			t.Fatalf("%v is taken for %v", &got, want)
		}
	})
}

// FuzzKeyAndRevision: an object's key and revision are what protobuf decodes.
func FuzzKeyAndRevision(f *testing.F) {
	f.Add(marshal(f, &mvccpb.KeyValue{
		Key: []byte("k"), CreateRevision: 1, ModRevision: 2, Version: 3, Value: []byte("v"), Lease: 4,
	}))
	f.Add([]byte{0x0a, 1, 'a', 0x18, 1, 0x0a, 0, 0x18, 0x80, 1})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		key, revision, err := keyAndRevision(encoded)
		var kv mvccpb.KeyValue
		if decodable := proto.Unmarshal(encoded, &kv); (decodable == nil && len(kv.Key) > 0) != (err == nil) {
			t.Fatalf("%x: %v, and protobuf: %v, key %q", encoded, err, decodable, kv.Key)
		}
		if err == nil && (!bytes.Equal(key, kv.Key) || revision != kv.ModRevision) {
			t.Fatalf("%v: key %q, revision %d", &kv, key, revision)
		}
	})
}

// FuzzAnswer: the answers to a replacement and to a put are encoded as protobuf encodes them.
func FuzzAnswer(f *testing.F) {
	f.Add(int64(1), uint64(2), uint64(3), uint64(4))
	f.Add(int64(-1), uint64(0), ^uint64(0), uint64(1)<<63)
	f.Fuzz(func(t *testing.T, revision int64, cluster, member, term uint64) {
		if revision == 0 { // no replacement has it
			return
		}
		h := &pb.ResponseHeader{ClusterId: cluster, MemberId: member, RaftTerm: term}
		want := replaced(revision)
		want.Header.ClusterId, want.Header.MemberId, want.Header.RaftTerm = cluster, member, term
		if got := encodeReplaced(revision, h); !bytes.Equal(got, marshal(t, want)) {
			t.Fatalf("%v is encoded as %x", want, got)
		}
		put := &pb.PutResponse{Header: want.Header}
		if got := encodePut(revision, h); !bytes.Equal(got, marshal(t, put)) {
			t.Fatalf("%v is encoded as %x", put, got)
		}
	})
}

// FuzzEntries splits its input into commands, as an entry of the log is, and executes them in two keyspaces. These have the
// same contents afterwards, and so has one that is made from a snapshot.
func FuzzEntries(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var entry []byte
		for range 20 {
			c, err := Encode(anyCommand(random))
			if err != nil {
				f.Fatal(err)
			}
			entry = append(binary.AppendUvarint(entry, uint64(len(c))), c...)
		}
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry []byte) {
		first, second := execute(t, entry), execute(t, entry)
		text := contents(t, first)
		if !bytes.Equal(text, contents(t, second)) {
			t.Fatal("two keyspaces have different contents")
		}
		third, err := Restore(bytes.NewReader(text), Tokens{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, contents(t, third)) {
			t.Fatal("a keyspace has other contents than its snapshot")
		}
		if err := errors.Join(first.Close(), second.Close(), third.Close()); err != nil {
			t.Error(err)
		}
	})
}

// anyCommand returns a command about objects, leases, users or alarms.
func anyCommand(random *rand.Rand) *pb.InternalRaftRequest {
	name := func() string { return []string{"root", "alice", "bob"}[random.IntN(3)] }
	perm := &authpb.Permission{
		PermType: authpb.Permission_Type(random.IntN(3)), Key: fmt.Appendf(nil, "k%d", random.IntN(5)),
		RangeEnd: []byte("k7"),
	}
	const all = 24 // half of them are about objects and leases
	switch r := new(pb.InternalRaftRequest); random.IntN(all) {
	case 0:
		r.AuthUserAdd = &pb.AuthUserAddRequest{Name: name(), HashedPassword: "c2VjcmV0"}
		return r
	case 1:
		r.AuthUserAdd = &pb.AuthUserAddRequest{Name: name(), Options: &authpb.UserAddOptions{NoPassword: true}}
		return r
	case 2:
		r.AuthUserDelete = &pb.AuthUserDeleteRequest{Name: name()}
		return r
	case 3:
		r.AuthRoleAdd = &pb.AuthRoleAddRequest{Name: name()}
		return r
	case 4:
		r.AuthUserGrantRole = &pb.AuthUserGrantRoleRequest{User: name(), Role: name()}
		return r
	case 5:
		r.AuthRoleGrantPermission = &pb.AuthRoleGrantPermissionRequest{Name: name(), Perm: perm}
		return r
	case 6:
		r.AuthRoleRevokePermission = &pb.AuthRoleRevokePermissionRequest{Role: name(), Key: perm.Key, RangeEnd: perm.RangeEnd}
		return r
	case 7:
		r.AuthUserRevokeRole = &pb.AuthUserRevokeRoleRequest{Name: name(), Role: name()}
		return r
	case 8:
		r.AuthEnable = new(pb.AuthEnableRequest)
		return r
	case 9:
		r.AuthDisable = new(pb.AuthDisableRequest)
		return r
	case 10:
		r.Authenticate = &pb.InternalAuthenticateRequest{Name: name(), SimpleToken: "token"}
		return r
	case 11:
		r.Alarm = &pb.AlarmRequest{
			Action: pb.AlarmRequest_AlarmAction(random.IntN(3)), MemberID: random.Uint64N(2), Alarm: pb.AlarmType_NOSPACE,
		}
		return r
	}
	r := command(random)
	if random.IntN(2) == 0 {
		r.Header = &pb.RequestHeader{Username: name(), AuthRevision: random.Uint64N(20)}
	}
	return r
}

// execute makes a keyspace of the commands of an entry. As a gateway does, it makes the keyspace again after a panic.
func execute(t *testing.T, entry []byte) *Keyspace {
	k := newKeyspace(t)
	for len(entry) > 0 {
		n, m := binary.Uvarint(entry)
		if m <= 0 || n > uint64(len(entry)-m) {
			break
		}
		c, err := Decode(entry[m : m+int(n)])
		if err != nil {
			break
		}
		if _, err := k.Apply(&c); errors.Is(err, ErrBroken) {
			if k, err = k.Rebuild(); err != nil {
				t.Fatal(err)
			}
		}
		entry = entry[m+int(n):]
	}
	return k
}

// contents returns the snapshot of a keyspace without a compaction that runs. Leases are in the order of their numbers.
func contents(t testing.TB, k *Keyspace) []byte {
	t.Helper()
	var text bytes.Buffer
	<-k.Settled()
	s := k.Snapshot()
	slices.SortFunc(s.leases, func(a, b *leasepb.Lease) int { return cmp.Compare(a.ID, b.ID) })
	err := s.Write(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// FuzzSnapshot: the bytes of a snapshot make a keyspace or an error. The keyspace has the contents that the snapshot has.
func FuzzSnapshot(f *testing.F) {
	k, err := New(1, Tokens{})
	if err != nil {
		f.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 3 { // the later ones have users
		for range 30 {
			c := CommandOf(anyCommand(random))
			_, _ = k.Apply(&c) // some have an error of their own
		}
		r, err := zstd.NewReader(bytes.NewReader(contents(f, k)))
		if err != nil {
			f.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte{0, 1, 0, 0})
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{2, 1, 1, 2, 8, 1, 6, 0x0a, 1, 'k', 0x18, 2, 0})
	f.Add([]byte{9, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := decode(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		k, err := open(Tokens{}, s.fill)
		if err != nil {
			return
		}
		again, err := Restore(bytes.NewReader(contents(t, k)), Tokens{})
		if err != nil {
			t.Fatalf("the snapshot of a snapshot: %v", err)
		}
		if !bytes.Equal(contents(t, k), contents(t, again)) {
			t.Fatal("the snapshot of a snapshot has other contents")
		}
		if err := errors.Join(k.Close(), again.Close()); err != nil {
			t.Error(err)
		}
	})
}
