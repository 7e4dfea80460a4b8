package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// methods of etcd's API, by the type of their request.
var methods = func() map[protoreflect.FullName]protoreflect.MethodDescriptor {
	all := make(map[protoreflect.FullName]protoreflect.MethodDescriptor)
	for services, i := pb.File_rpc_proto.Services(), 0; i < services.Len(); i++ {
		for of, j := services.Get(i).Methods(), 0; j < of.Len(); j++ {
			if m := of.Get(j); m.Name() != "RangeStream" {
				all[m.Input().FullName()] = m
			}
		}
	}
	return all
}()

// caller makes calls at one server, with the tokens that it gave.
type authCaller struct {
	conn   *grpc.ClientConn
	tokens map[string]string // by user
}

func newAuthCaller(t *testing.T, address string, tokens map[string]string) *authCaller {
	t.Helper()
	conn := must(grpc.NewClient(strings.TrimPrefix(address, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return &authCaller{conn, tokens}
}

// call makes a call as a user; empty: without a token. A stream ends after its first answer.
func (c *authCaller) call(t *testing.T, user string, q proto.Message) (proto.Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if user != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, cmp.Or(c.tokens[user], "of.nobody"))
	}
	m := methods[q.ProtoReflect().Descriptor().FullName()]
	path := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	answer := must(protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName()))(t).New().Interface()
	for {
		err := c.exchange(ctx, path, m, q, answer)
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil || m.IsStreamingClient() {
			if a, ok := answer.(*pb.AuthenticateResponse); ok && err == nil {
				c.tokens[q.(*pb.AuthenticateRequest).Name] = a.Token
			}
			return answer, err
		}
	}
}

func (c *authCaller) exchange(ctx context.Context, path string, m protoreflect.MethodDescriptor,
	q, answer proto.Message) error {
	if !m.IsStreamingServer() {
		return c.conn.Invoke(ctx, path, q, answer)
	}
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err == nil {
		err = stream.SendMsg(q)
	}
	if err == nil && !m.IsStreamingClient() {
		err = stream.CloseSend()
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = stream.RecvMsg(answer)
	}
	return err
}

// comparable removes what differs between two clusters from an answer.
func comparable(m proto.Message) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && !f.IsList() && !f.IsMap() {
			comparable(v.Message().Interface())
		}
		return true
	})
	switch m := m.(type) {
	case *pb.ResponseHeader:
		m.ClusterId, m.MemberId, m.RaftTerm = 0, 0, 0
	case *pb.AuthenticateResponse:
		m.Token = ""
	case *pb.LeaseTimeToLiveResponse:
		m.TTL = min(m.TTL, 0)
		slices.SortFunc(m.Keys, slices.Compare)
	case *pb.LeaseLeasesResponse:
		slices.SortFunc(m.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	case *pb.StatusResponse, *pb.SnapshotResponse, *pb.HashKVResponse:
		proto.Reset(m)
	}
}

// cheap makes hashes of passwords fast.
func cheap(t *testing.T) keyspace.Tokens {
	return must(keyspace.NewTokens("simple", 0, bcrypt.MinCost))(t)
}

// step is a call of a user.
type step struct {
	user string
	q    proto.Message
}

// besideEtcd compares the answers of two gateways of a keyspace on disks with those of an etcd.
type besideEtcd struct {
	t     *testing.T
	etcd  *authCaller
	ours  []*authCaller
	calls int
}

func newBesideEtcd(t *testing.T) *besideEtcd {
	etcd := etcdtest.Start(t, 1, nil).Members[0].ClientURL()
	w := newOnDisk(t)
	w.tokens = cheap(t)
	b, shared := &besideEtcd{t: t, etcd: newAuthCaller(t, etcd, make(map[string]string))}, make(map[string]string)
	for _, name := range []string{"a", "b"} {
		b.ours = append(b.ours, newAuthCaller(t, w.start(name).address, shared))
	}
	return b
}

// do makes a call at the etcd and at one of the gateways, which has all that was acknowledged before.
func (b *besideEtcd) do(s step) {
	b.t.Helper()
	at := b.ours[b.calls%len(b.ours)]
	b.calls++
	if _, err := at.call(b.t, "", &pb.AuthStatusRequest{}); err != nil {
		b.t.Fatal(err)
	}
	want, wanted := b.etcd.call(b.t, s.user, s.q)
	got, failed := at.call(b.t, s.user, s.q)
	if status.Code(wanted) != status.Code(failed) || status.Convert(wanted).Message() != status.Convert(failed).Message() {
		b.t.Errorf("call %d of %q: %T %v: %v, and etcd's answer is %v", b.calls, s.user, s.q, s.q, failed, wanted)
	}
	if wanted != nil || failed != nil {
		return
	}
	comparable(want)
	comparable(got)
	if diff := gocmp.Diff(want, got, protocmp.Transform()); diff != "" {
		b.t.Errorf("call %d of %q: %T %v: other than etcd's (-):\n%s", b.calls, s.user, s.q, s.q, diff)
	}
}

// grants are the permissions of the roles r1 and r2, the second of which ends at infinity.
var grants = []*authpb.Permission{
	{PermType: authpb.Permission_READWRITE, Key: []byte("a"), RangeEnd: []byte("c")},
	{PermType: authpb.Permission_READ, Key: []byte("d")},
	{PermType: authpb.Permission_WRITE, Key: []byte("m"), RangeEnd: []byte{0}},
	{PermType: authpb.Permission_READ, Key: []byte("x"), RangeEnd: []byte("y\x00")},
	{PermType: authpb.Permission_READ, Key: []byte("c"), RangeEnd: []byte("a")},
	{PermType: authpb.Permission_READ},
	nil,
}

// setUp are the calls with which most users begin.
var setUp = []step{
	{"", &pb.AuthEnableRequest{}},
	{"", &pb.AuthenticateRequest{Name: "root", Password: "pw"}},
	{"", &pb.AuthUserAddRequest{Name: "root", Password: "pw"}},
	{"", &pb.AuthUserAddRequest{Name: "root", Password: "pw"}},
	{"", &pb.AuthUserAddRequest{Password: "pw"}},
	{"", &pb.AuthUserAddRequest{Name: "long", Password: strings.Repeat("x", 73)}},
	{"", &pb.AuthEnableRequest{}},
	{"", &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}},
	{"", &pb.AuthUserAddRequest{Name: "alice", Password: "pw"}},
	{"", &pb.AuthUserAddRequest{Name: "cert", Options: &authpb.UserAddOptions{NoPassword: true}}},
	{"", &pb.AuthRoleAddRequest{Name: "r1"}},
	{"", &pb.AuthRoleAddRequest{}},
	{"", &pb.AuthUserGrantRoleRequest{User: "alice", Role: "r1"}},
	{"", &pb.AuthRoleGrantPermissionRequest{Name: "r1", Perm: grants[0]}},
	{"", &pb.AuthUserListRequest{}},
	{"", &pb.PutRequest{Key: []byte("z"), Value: []byte("secret")}},
	{"", &pb.LeaseGrantRequest{ID: 1, TTL: 6000}},
	{"", &pb.PutRequest{Key: []byte("z"), Value: []byte("secret"), Lease: 1}},
	{"", &pb.AuthEnableRequest{}},
	{"", &pb.AuthEnableRequest{}},
	{"", &pb.AuthStatusRequest{}},
	{"", &pb.RangeRequest{Key: []byte("z")}},
	{"", &pb.RangeRequest{Key: []byte("z"), Serializable: true}},
	{"", &pb.AuthenticateRequest{Name: "root", Password: "wrong"}},
	{"", &pb.AuthenticateRequest{Name: "nobody", Password: "pw"}},
	{"", &pb.AuthenticateRequest{Name: "cert", Password: "pw"}},
	{"", &pb.AuthenticateRequest{Name: "root", Password: "pw"}},
	{"alice", &pb.AuthenticateRequest{Name: "alice", Password: "pw"}},
	{"root", &pb.RangeRequest{Key: []byte("z")}},
	{"alice", &pb.RangeRequest{Key: []byte("z")}},
	{"nobody", &pb.RangeRequest{Key: []byte("z")}},
	{"root", &pb.AuthRoleAddRequest{Name: "root"}},
	{"root", &pb.AuthRoleGetRequest{Role: "root"}},
}

// attacks are calls of a user with few permissions, at the borders of these.
func attacks(user string) (all []step) {
	read := func(key, end string) *pb.RangeRequest {
		return &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	}
	put := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), PrevKv: key == "m"}}}
	}
	get := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: read(key, "")}}
	}
	in := func(q *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: q}}
	}
	secret := &pb.Compare{Key: []byte("z"), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("secret")}}
	watch := func(key, end string) *pb.WatchRequest {
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end)},
		}}
	}
	for _, q := range []proto.Message{
		read("a", ""), read("a", "c"), read("a", "c\x00"), read("a", "\x00"), read("\x00", "\x00"), read("", ""), read("c", "b"),
		read("b", "b"), read("d", ""), read("d", "e"), read("d", "d\x00"), read("m", ""), read("y", ""), read("a\x00", "b\xff"),
		&pb.PutRequest{Key: []byte("a"), Value: []byte("1")}, &pb.PutRequest{Key: []byte("c")}, &pb.PutRequest{},
		&pb.PutRequest{Key: []byte("a"), Lease: 1}, &pb.PutRequest{Key: []byte("a"), Lease: 99},
		&pb.PutRequest{Key: []byte("m"), PrevKv: true}, &pb.PutRequest{Key: []byte("m")},
		&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("d")}, &pb.DeleteRangeRequest{Key: []byte("m"), PrevKv: true},
		&pb.DeleteRangeRequest{Key: []byte("b"), PrevKv: true}, &pb.DeleteRangeRequest{Key: []byte("b"), RangeEnd: []byte{0}},
		&pb.TxnRequest{Compare: []*pb.Compare{secret}}, &pb.TxnRequest{},
		&pb.TxnRequest{Compare: []*pb.Compare{secret}, Success: []*pb.RequestOp{put("a")}, Failure: []*pb.RequestOp{put("b")}},
		&pb.TxnRequest{Success: []*pb.RequestOp{put("a"), get("z")}}, &pb.TxnRequest{Success: []*pb.RequestOp{get("z")}},
		&pb.TxnRequest{Success: []*pb.RequestOp{put("a")}, Failure: []*pb.RequestOp{put("z")}},
		&pb.TxnRequest{Success: []*pb.RequestOp{put("b"), in(&pb.TxnRequest{Compare: []*pb.Compare{secret}})}},
		&pb.TxnRequest{Success: []*pb.RequestOp{in(&pb.TxnRequest{Failure: []*pb.RequestOp{put("z")}})}},
		&pb.TxnRequest{Success: []*pb.RequestOp{put("m")}}, &pb.TxnRequest{Success: []*pb.RequestOp{put("a"), get("b")}},
		&pb.LeaseGrantRequest{ID: 2, TTL: 6000}, &pb.LeaseTimeToLiveRequest{ID: 1}, &pb.LeaseTimeToLiveRequest{ID: 1, Keys: true},
		&pb.LeaseTimeToLiveRequest{ID: 77, Keys: true}, &pb.LeaseLeasesRequest{}, &pb.LeaseRevokeRequest{ID: 1},
		&pb.LeaseRevokeRequest{ID: 2}, &pb.LeaseRevokeRequest{ID: 77}, &pb.LeaseKeepAliveRequest{ID: 1},
		&pb.LeaseKeepAliveRequest{ID: 77}, &pb.CompactionRequest{Revision: 1},
		watch("a", ""), watch("a", "c"), watch("a", "d"), watch("a", "\x00"), watch("", ""), watch("\x00", "\x00"), watch("z", ""),
		&pb.StatusRequest{}, &pb.AlarmRequest{}, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE}, &pb.DefragmentRequest{},
		&pb.HashKVRequest{}, &pb.SnapshotRequest{},
		&pb.AuthUserGetRequest{Name: user}, &pb.AuthUserGetRequest{Name: "root"}, &pb.AuthUserGetRequest{Name: "none"},
		&pb.AuthRoleGetRequest{Role: "r1"}, &pb.AuthRoleGetRequest{Role: "root"}, &pb.AuthRoleGetRequest{Role: "none"},
		&pb.AuthUserListRequest{}, &pb.AuthRoleListRequest{}, &pb.AuthStatusRequest{},
	} {
		all = append(all, step{user, q})
	}
	return all
}

// adminCalls are calls that only an administrator may make.
var adminCalls = []proto.Message{
	&pb.AuthUserAddRequest{Name: "eve", Password: "pw"}, &pb.AuthUserDeleteRequest{Name: "root"},
	&pb.AuthUserGrantRoleRequest{User: "alice", Role: "root"}, &pb.AuthUserRevokeRoleRequest{Name: "root", Role: "root"},
	&pb.AuthRoleDeleteRequest{Role: "root"}, &pb.AuthRoleGrantPermissionRequest{Name: "r1", Perm: grants[2]},
	&pb.AuthRoleRevokePermissionRequest{Role: "r1", Key: []byte("a"), RangeEnd: []byte("c")},
	&pb.AuthUserChangePasswordRequest{Name: "root", Password: "mine"}, &pb.AuthDisableRequest{},
}

// TestAuthAsEtcd: users, roles, tokens and permissions have etcd's answers and errors at each gateway.
func TestAuthAsEtcd(t *testing.T) {
	b := newBesideEtcd(t)
	for _, s := range setUp {
		b.do(s)
	}
	for _, user := range []string{"", "nobody", "alice"} {
		for _, q := range adminCalls {
			b.do(step{user, q})
		}
		for _, s := range attacks(user) {
			b.do(s)
		}
	}
	for _, q := range append(adminCalls[1:2:2], adminCalls[3], adminCalls[4]) { // etcd protects root
		b.do(step{"root", q})
	}
	for _, s := range []step{
		{"root", &pb.AuthUserChangePasswordRequest{Name: "alice", Password: "other"}},
		{"alice", &pb.RangeRequest{Key: []byte("a")}}, // an old token
		{"", &pb.AuthenticateRequest{Name: "alice", Password: "pw"}},
		{"", &pb.AuthenticateRequest{Name: "alice", Password: "other"}},
		{"alice", &pb.RangeRequest{Key: []byte("a")}},
		{"root", &pb.AuthUserDeleteRequest{Name: "alice"}},
		{"alice", &pb.PutRequest{Key: []byte("a")}},
		{"root", &pb.AuthUserAddRequest{Name: "alice", Password: "pw"}},
		{"alice", &pb.PutRequest{Key: []byte("a")}},
		{"root", &pb.AuthDisableRequest{}},
		{"root", &pb.RangeRequest{Key: []byte("z")}},
		{"", &pb.PutRequest{Key: []byte("z")}},
		{"", &pb.AuthEnableRequest{}},
		{"root", &pb.RangeRequest{Key: []byte("z")}}, // a token of before
		{"", &pb.AuthenticateRequest{Name: "root", Password: "pw"}},
		{"root", &pb.RangeRequest{Key: []byte("z")}},
	} {
		b.do(s)
	}
}

// TestRandomAuthAsEtcd: random calls of random users have etcd's answers.
func TestRandomAuthAsEtcd(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(names string) string { all := strings.Split(names, " "); return all[random.IntN(len(all))] }
	b := newBesideEtcd(t)
	for _, s := range setUp {
		b.do(s)
	}
	reads := attacks("alice")
	for range 400 {
		user, name, role := pick("root root root alice bob"), pick("alice bob"), pick("r1 r2")
		perm := grants[random.IntN(len(grants))]
		kinds := []proto.Message{
			&pb.AuthUserAddRequest{Name: name, Password: pick("pw other")}, &pb.AuthUserDeleteRequest{Name: name},
			&pb.AuthUserGrantRoleRequest{User: name, Role: pick("r1 r2 root")}, &pb.AuthUserRevokeRoleRequest{Name: name, Role: role},
			&pb.AuthRoleAddRequest{Name: role}, &pb.AuthRoleDeleteRequest{Role: role},
			&pb.AuthRoleGrantPermissionRequest{Name: role, Perm: perm}, &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: perm},
			&pb.AuthRoleRevokePermissionRequest{Role: role, Key: perm.GetKey(), RangeEnd: perm.GetRangeEnd()},
			&pb.AuthUserChangePasswordRequest{Name: name, Password: "pw"}, &pb.AuthenticateRequest{Name: name, Password: "pw"},
			&pb.AuthUserGetRequest{Name: name}, &pb.AuthRoleGetRequest{Role: role}, &pb.AuthUserListRequest{}, &pb.AuthRoleListRequest{},
		}
		q := kinds[random.IntN(len(kinds))]
		if random.IntN(2) == 0 {
			user, q = name, reads[random.IntN(len(reads))].q
		}
		b.do(step{user, q})
	}
}

// withoutUser are the calls that need no user, as at an etcd. The others check such requests first, or end
// without an answer; they make calls that are checked.
var withoutUser = []string{"/etcdserverpb.Auth/Authenticate", "/etcdserverpb.Auth/AuthStatus",
	"/grpc.health.v1.Health/Check",
	"/etcdserverpb.KV/Txn", "/etcdserverpb.Watch/Watch", "/v3electionpb.Election/Proclaim", "/v3electionpb.Election/Observe",
	"/v3electionpb.Election/Resign"}

// TestEveryCallIsChecked: no call of a gateway, the relay of other gateways included, is answered without a user.
func TestEveryCallIsChecked(t *testing.T) {
	a, b := pair(t)
	enable(t, a)
	eventually(t, "the other gateway has the users", b.current().Auth().IsAuthEnabled)
	all := slices.Collect(maps.Keys(a.calls.known))
	for _, method := range append(all, relayMethod) {
		if slices.Contains(withoutUser, method) {
			continue
		}
		for _, g := range []*gateway{a, b} {
			err := bare(t, g.address, method)
			switch {
			case errors.Is(rpctypes.Error(err), rpctypes.ErrUserEmpty), denied(err):
			case status.Code(err) != codes.Unimplemented:
				t.Errorf("%s: %v", method, err)
			}
		}
	}
}

// TestForgedRelay: a client that opens a relay before authentication is enabled is not another gateway.
func TestForgedRelay(t *testing.T) {
	a, b := pair(t)
	forged := newSession(false)
	for id, c := range []*pb.InternalRaftRequest{
		{Header: &pb.RequestHeader{Username: "root", AuthRevision: 1 << 40}, Put: &pb.PutRequest{Key: []byte("forged")}},
		{Authenticate: &pb.InternalAuthenticateRequest{Name: "root", SimpleToken: "mine"}},
	} {
		body := must(proto.Marshal(c))(t)
		if err := forged.execute(t.Context(), a.Gateway, item{uint64(id), itemCommand, body}); err != nil {
			t.Fatal(err)
		}
	}
	forged.finish()
	for rest := forged.out; len(rest) > 0; {
		var i item
		if i, rest, _ = next(rest); i.kind != itemFailed {
			t.Errorf("command %d has a reply of kind %d", i.id, i.kind)
		}
	}
	enable(t, a)
	if err := newSession(false).execute(t.Context(), a.Gateway, item{9, itemPut, nil}); !denied(err) {
		t.Errorf("after authentication was enabled: %v", err)
	}
	for _, md := range []metadata.MD{
		metadata.Pairs(secretKey, "", userKey, "root", revisionKey, "99"),
		metadata.Pairs(secretKey, strings.Repeat("00", 32), userKey, "root", revisionKey, "99"),
		metadata.Pairs(userKey, "root", revisionKey, "99"),
	} {
		for _, g := range []*gateway{a, b} {
			ctx := metadata.NewOutgoingContext(t.Context(), md)
			_, err := pb.NewKVClient(newAuthCaller(t, g.address, nil).conn).Range(ctx, &pb.RangeRequest{Key: []byte("a")})
			if !errors.Is(rpctypes.Error(err), rpctypes.ErrUserEmpty) {
				t.Errorf("%v: %v", md, err)
			}
		}
	}
}

// TestUsersOfAllGateways: users of a keyspace in memory are those of all its gateways, and so are the tokens; another
// gateway that takes over keeps them.
func TestUsersOfAllGateways(t *testing.T) {
	o := Options{Tokens: cheap(t)}
	a := start(t, startChain(t), o)
	a.waitActive(t)
	b := start(t, a.cluster, o)
	enable(t, a)
	tokens := make(map[string]string)
	for i, g := range []*gateway{a, b, a, b} {
		other := []*gateway{b, a, b, a}[i]
		if _, err := newAuthCaller(t, g.address, tokens).call(t, "", &pb.AuthenticateRequest{Name: "alice", Password: "pw"}); err != nil {
			t.Fatal(err)
		}
		c := newAuthCaller(t, other.address, tokens)
		for _, q := range []proto.Message{&pb.RangeRequest{Key: []byte("a")}, &pb.PutRequest{Key: []byte("a")}} {
			if _, err := c.call(t, "alice", q); err != nil {
				t.Errorf("%T with a token of another gateway: %v", q, err)
			}
		}
		if _, err := c.call(t, "alice", &pb.RangeRequest{Key: []byte("b")}); !denied(err) {
			t.Errorf("a key of others: %v", err)
		}
	}
	a.kill()
	b.waitActive(t)
	late := start(t, b.cluster, o) // reads the log, or a snapshot
	for _, g := range []*gateway{b, late} {
		c := login(t, "alice", g.address)
		again(func() (*clientv3.PutResponse, error) { return c.Put(t.Context(), "a", "1") })(t)
		if _, err := c.Put(t.Context(), "b", "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("a key of others: %v", err)
		}
		if _, err := open(t, g.address).Get(t.Context(), "a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("without a user: %v", err)
		}
	}
}

// TestSignedTokens: a token that one gateway has signed is known at the others, until users change.
func TestSignedTokens(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a secret of the operator"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Tokens: must(keyspace.NewTokens("jwt,sign-method=HS256,priv-key="+key, 0, bcrypt.MinCost))(t)}
	a := start(t, startChain(t), o)
	a.waitActive(t)
	b := start(t, a.cluster, o)
	enable(t, a)
	tokens := make(map[string]string)
	for i, g := range []*gateway{a, b} {
		if _, err := newAuthCaller(t, g.address, tokens).call(t, "", &pb.AuthenticateRequest{Name: "alice", Password: "pw"}); err != nil {
			t.Fatal(err)
		}
		c := newAuthCaller(t, []*gateway{b, a}[i].address, tokens)
		if _, err := c.call(t, "alice", &pb.RangeRequest{Key: []byte("a")}); err != nil {
			t.Error(err)
		}
		must(login(t, "root", a.address).RoleAdd(t.Context(), fmt.Sprint(i)))(t)
		if _, err := c.call(t, "alice", &pb.RangeRequest{Key: []byte("a")}); !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthOldRevision) {
			t.Errorf("after a change of users: %v", err)
		}
	}
}

// TestUsersAreKept: users are on the disks, in a snapshot for etcd, and in a keyspace that begins with one.
func TestUsersAreKept(t *testing.T) {
	w := newOnDisk(t)
	w.tokens = cheap(t)
	g := w.start("a")
	g.waitActive(t)
	enable(t, g)
	must(login(t, "alice", g.address).Put(t.Context(), "a", "1"))(t)
	w.kill(g)
	g = w.start("a")
	root := login(t, "root", g.address)
	again(func() (*clientv3.PutResponse, error) { return root.Put(t.Context(), "z", "1") })(t)
	path := filepath.Join(t.TempDir(), "saved")
	stream := must(root.Snapshot(t.Context()))(t)
	if err := os.WriteFile(path, must(io.ReadAll(stream))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	imported := must(keyspace.ReadFile(path, false))(t)
	var encoded bytes.Buffer
	if err := imported.Write(&encoded); err != nil {
		t.Fatal(err)
	}
	k := must(keyspace.Restore(&encoded, w.tokens))(t)
	defer k.Close() //nolint:errcheck // it was read
	if !k.Auth().IsAuthEnabled() {
		t.Error("authentication is not enabled in what was imported")
	}
	if _, err := k.Auth().CheckPassword("alice", "pw"); err != nil {
		t.Error(err)
	}
	back, _ := etcdtest.Restored(t, path)
	for _, address := range []string{g.address, back.ClientURL()} {
		c := login(t, "alice", address)
		if r := must(c.Get(t.Context(), "a"))(t); len(r.Kvs) != 1 {
			t.Errorf("%s: %v", address, r)
		}
		if _, err := c.Get(t.Context(), "z"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("%s: a key of others: %v", address, err)
		}
	}
}

// bare makes a call without a token, whose request has a value in each field.
func bare(t *testing.T, address, path string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := newAuthCaller(t, address, nil)
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	var q proto.Message = new(wrapperspb.BytesValue)
	if err == nil {
		of := found.(protoreflect.MethodDescriptor).Input().FullName()
		q = must(protoregistry.GlobalTypes.FindMessageByName(of))(t).New().Interface()
	}
	fields := q.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.Kind() == protoreflect.BytesKind && !f.IsList():
			q.ProtoReflect().Set(f, protoreflect.ValueOfBytes([]byte("k")))
		case f.Kind() == protoreflect.StringKind && !f.IsList():
			q.ProtoReflect().Set(f, protoreflect.ValueOfString("root"))
		case f.Kind() == protoreflect.Int64Kind && !f.IsList():
			q.ProtoReflect().Set(f, protoreflect.ValueOfInt64(1))
		}
	}
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err == nil {
		err = stream.SendMsg(q)
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(new(emptypb.Empty))
	}
	return err
}

// enable enables authentication. The users are root and alice. Alice may read and write keys below "a".
func enable(t *testing.T, g *gateway) {
	t.Helper()
	enableAs(t, open(t, g.address))
}

func enableAs(t *testing.T, c *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"root", "alice"} {
		must(c.UserAdd(ctx, name, "pw"))(t)
		must(c.RoleAdd(ctx, name))(t)
		must(c.UserGrantRole(ctx, name, name))(t)
	}
	must(c.RoleGrantPermission(ctx, "alice", "a", "b", clientv3.PermissionType(clientv3.PermReadWrite)))(t)
	must(c.AuthEnable(ctx))(t)
}

// login makes a client of a user.
func login(t *testing.T, user string, addresses ...string) *clientv3.Client {
	t.Helper()
	c := must(clientv3.New(clientv3.Config{Endpoints: addresses, Username: user, Password: "pw", Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// denied reports whether a call failed because its user lacks the permission.
func denied(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) }
