package proxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// startEtcd runs etcd and returns its address.
func startEtcd(t *testing.T) string {
	t.Helper()
	client := etcdtest.FreePort(t)
	startEtcdAt(t, client, etcdtest.FreePort(t))
	return client
}

// startEtcdAt runs etcd, with no data, until the test ends or it is closed.
func startEtcdAt(t *testing.T, client, peer string) (end func()) {
	t.Helper()
	_, end = startMember(t, client, peer, func(*embed.Config) {})
	return end
}

// startMember runs a changed etcd until the test ends or it is closed. It waits for a leader.
func startMember(t *testing.T, client, peer string, change func(*embed.Config)) (e *embed.Etcd, end func()) {
	t.Helper()
	e = beginMember(t, client, peer, change)
	end = sync.OnceFunc(e.Close)
	t.Cleanup(end)
	select {
	case <-e.Server.ReadyNotify():
	case <-t.Context().Done():
	}
	return e, end
}

// beginMember begins to run a changed etcd, which the caller closes.
func beginMember(t *testing.T, client, peer string, change func(*embed.Config)) *embed.Etcd {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.LogOutputs = t.TempDir(), "error", []string{t.TempDir() + "/log"}
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: client}}
	c.AdvertiseClientUrls = c.ListenClientUrls
	c.ListenPeerUrls = []url.URL{{Scheme: "http", Host: peer}}
	c.AdvertisePeerUrls = c.ListenPeerUrls
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	change(c)
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// startGateway serves until the test ends.
func startGateway(t *testing.T, o Options) string {
	t.Helper()
	s, _ := startServer(t, o)
	return s.Addr().String()
}

// startServer serves until the test ends, or stop is called.
func startServer(t *testing.T, o Options) (s *Server, stop func()) {
	t.Helper()
	o.Listen, o.Log = "127.0.0.1:0", slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// open connects etcd's own client.
func open(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestKV(t *testing.T) {
	c, ctx := open(t, startGateway(t, Options{Endpoints: []string{startEtcd(t)}})), t.Context()
	put := must(c.Put(ctx, "a", "1"))(t)
	get := must(c.Get(ctx, "a"))(t)
	if len(get.Kvs) != 1 || string(get.Kvs[0].Value) != "1" || get.Kvs[0].ModRevision != put.Header.Revision || get.Header.MemberId == 0 {
		t.Errorf("get: %v after %v", get, put)
	}
	compare := clientv3.Compare(clientv3.ModRevision("a"), "=", put.Header.Revision)
	txn := must(c.Txn(ctx).If(compare).Then(clientv3.OpPut("a", "2"), clientv3.OpGet("a")).Commit())(t)
	if !txn.Succeeded || string(txn.Responses[1].GetResponseRange().Kvs[0].Value) != "2" {
		t.Errorf("txn: %v", txn)
	}
	if again := must(c.Txn(ctx).If(compare).Then(clientv3.OpDelete("a")).Else(clientv3.OpGet("a")).Commit())(t); again.Succeeded {
		t.Errorf("the same compare holds again: %v", again)
	}
	if del := must(c.Delete(ctx, "a", clientv3.WithPrevKV()))(t); del.Deleted != 1 || string(del.PrevKvs[0].Value) != "2" {
		t.Errorf("delete: %v", del)
	}
	must(c.Compact(ctx, txn.Header.Revision))(t)
	if _, err := c.Get(ctx, "a", clientv3.WithRev(1)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("a compacted revision: %v", err)
	}
	if _, err := c.Put(ctx, "big", strings.Repeat("x", 3<<20)); status.Code(err) == codes.OK || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request above etcd's limit: %v", err)
	}
}

// TestRangeStream uses an RPC that etcd has since 3.7.
func TestRangeStream(t *testing.T) {
	address := startGateway(t, Options{Endpoints: []string{startEtcd(t)}})
	c, ctx := open(t, address), t.Context()
	for i := range 50 {
		must(c.Put(ctx, fmt.Sprintf("k%02d", i), strings.Repeat("v", 1000)))(t)
	}
	stream := must(pb.NewKVClient(connect(t, address)).RangeStream(ctx, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}))(t)
	keys := 0
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		keys += len(r.RangeResponse.GetKvs())
	}
	if keys != 50 {
		t.Errorf("%d keys of 50", keys)
	}
}

func connect(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestWatch: previous values, fragments, progress and order.
func TestWatch(t *testing.T) {
	c := open(t, startGateway(t, Options{Endpoints: []string{startEtcd(t)}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch := c.Watch(ctx, "w", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify(), clientv3.WithFragment())
	if first := <-watch; !first.Created {
		t.Fatalf("not created: %v", first)
	}
	big := strings.Repeat("x", 1<<20)
	for range 3 {
		var ops []clientv3.Op
		must(c.Put(ctx, "w0", big))(t)
		ops = append(ops, clientv3.OpPut("w1", "a"), clientv3.OpPut("w2", "b"), clientv3.OpDelete("w0"))
		must(c.Txn(ctx).Then(ops...).Commit())(t)
	}
	var events []*clientv3.Event
	for len(events) < 12 {
		r := <-watch
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		events = append(events, r.Events...)
	}
	for i, e := range events {
		if i > 0 && e.Kv.ModRevision < events[i-1].Kv.ModRevision {
			t.Errorf("event %d is of revision %d, after %d", i, e.Kv.ModRevision, events[i-1].Kv.ModRevision)
		}
		if e.Type == clientv3.EventTypeDelete && (e.PrevKv == nil || len(e.PrevKv.Value) != len(big)) {
			t.Errorf("event %d lost its previous value", i)
		}
	}
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1].Kv.ModRevision
	if r := <-watch; !r.IsProgressNotify() || r.Header.Revision < last {
		t.Errorf("no progress: %v", r)
	}
}

func TestLeasesLocksElections(t *testing.T) {
	c, ctx := open(t, startGateway(t, Options{Endpoints: []string{startEtcd(t)}})), t.Context()
	session := must(concurrency.NewSession(c, concurrency.WithTTL(5)))(t)
	lock := concurrency.NewMutex(session, "lock")
	if err := lock.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	election := concurrency.NewElection(session, "election")
	if err := election.Campaign(ctx, "me"); err != nil {
		t.Fatal(err)
	}
	if r := must(election.Leader(ctx))(t); string(r.Kvs[0].Value) != "me" {
		t.Errorf("leader: %v", r)
	}
	if r := must(c.KeepAliveOnce(ctx, session.Lease()))(t); r.TTL != 5 {
		t.Errorf("keepalive: %v", r)
	}
	if _, err := c.Revoke(ctx, session.Lease()+1); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("a lease that does not exist: %v", err)
	}
}

func TestMembers(t *testing.T) {
	etcd := startEtcd(t)
	ctx := t.Context()
	passed := must(open(t, startGateway(t, Options{Endpoints: []string{etcd}})).MemberList(ctx))(t)
	if len(passed.Members) != 1 || passed.Members[0].ClientURLs[0] != "http://"+etcd {
		t.Errorf("etcd's list: %v", passed)
	}
	c := open(t, startGateway(t, Options{Endpoints: []string{etcd}, Advertise: "http://gateway:1"}))
	own := must(c.MemberList(ctx))(t)
	if len(own.Members) != 1 || own.Members[0].ClientURLs[0] != "http://gateway:1" || own.Header.GetClusterId() == 0 {
		t.Errorf("the gateway's list: %v", own)
	}
	if _, err := c.MemberRemove(ctx, 1); !errors.Is(err, rpctypes.ErrMemberNotFound) {
		t.Errorf("a member that does not exist: %v", err)
	}
}

// TestMembersAreFollowed: an address that only etcd's list has is used.
func TestMembersAreFollowed(t *testing.T) {
	etcd := startEtcd(t)
	first, err := parseEndpoint("http://" + strings.Replace(etcd, "127.0.0.1", "localhost", 1))
	if err != nil {
		t.Fatal(err)
	}
	u := must(dial([]endpoint{first}, nil, KeepAlive{}, readyWithin))(t)
	t.Cleanup(func() { u.Close() })
	var log bytes.Buffer
	for range 2 {
		if err := u.sync(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
	}
	if m := u.members(); len(m) != 1 || m[0].address != etcd || strings.Count(log.String(), etcd) != 1 {
		t.Errorf("%+v, logged:\n%s", m, log.String())
	}
	must(pb.NewKVClient(u.ClientConn).Put(t.Context(), &pb.PutRequest{Key: []byte("a")}))(t)
}

func TestPages(t *testing.T) {
	address := startGateway(t, Options{Endpoints: []string{startEtcd(t)}})
	for path, want := range map[string]string{
		"/version": `"etcdserver":"3.`, "/health": `"health":"true"`, "/metrics": "etcd_server_has_leader 1", "/proxy/metrics": "go_goroutines",
		"/livez": "ok", "/readyz": "ok",
	} {
		r := must(http.Get("http://" + address + path))(t)
		body := must(io.ReadAll(r.Body))(t)
		r.Body.Close()
		if r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, without %q", path, r.Status, want)
		}
	}
	request := fmt.Sprintf(`{"key":%q,"value":%q}`, base64.StdEncoding.EncodeToString([]byte("j")),
		base64.StdEncoding.EncodeToString([]byte("son")))
	r := must(http.Post("http://"+address+"/v3/kv/put", "application/json", bytes.NewBufferString(request)))(t)
	defer r.Body.Close()
	var answer struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Header.Revision == "" {
		t.Errorf("put by JSON: %v %+v", err, answer)
	}
	if get := must(open(t, address).Get(t.Context(), "j"))(t); string(get.Kvs[0].Value) != "son" {
		t.Errorf("%v", get)
	}
}

// TestPagesWithoutEtcd: a gateway is alive while etcd is away, and not ready.
func TestPagesWithoutEtcd(t *testing.T) {
	closed := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	address := startGateway(t, Options{Endpoints: []string{"http://" + closed.Addr().String()}})
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/health": http.StatusServiceUnavailable,
	} {
		r := must(http.Get("http://" + address + path))(t)
		if r.Body.Close(); r.StatusCode != want {
			t.Errorf("%s: %s, not %d", path, r.Status, want)
		}
	}
}

// TestPagesAlone: the listener of pages, which may have no certificates, does not lead to keys and values.
func TestPagesAlone(t *testing.T) {
	s, _ := startServer(t, Options{Endpoints: []string{startEtcd(t)}, Metrics: []string{"http://127.0.0.1:0"}})
	url := "http://" + s.more[0].Addr().String()
	r := must(http.Get(url + "/health"))(t)
	if r.Body.Close(); r.StatusCode != http.StatusOK {
		t.Errorf("/health: %s", r.Status)
	}
	for _, path := range []string{"/v3/kv/range", "/v3beta/kv/range"} {
		r := must(http.Post(url+path, "application/json", strings.NewReader(`{"key":"YQ=="}`)))(t)
		if r.Body.Close(); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

func TestReflectionAndUnknownCalls(t *testing.T) {
	conn, ctx := connect(t, startGateway(t, Options{Endpoints: []string{startEtcd(t)}})), t.Context()
	stream := must(grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx))(t)
	ask := func(q *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		return must(stream.Recv())(t)
	}
	all := ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService()
	if len(all) < 9 {
		t.Errorf("reflection lists %v", all)
	}
	set, seen := new(descriptorpb.FileDescriptorSet), make(map[string]bool)
	for _, service := range all { // as grpcurl does
		answer := ask(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.Name},
		})
		for _, text := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			f := new(descriptorpb.FileDescriptorProto)
			if err := proto.Unmarshal(text, f); err != nil {
				t.Fatal(err)
			}
			if !seen[f.GetName()] {
				set.File, seen[f.GetName()] = append(set.File, f), true
			}
		}
	}
	files := must(protodesc.NewFiles(set))(t) // fails if an import is missing
	for _, service := range all {
		must(files.FindDescriptorByName(protoreflect.FullName(service.Name)))(t)
	}
	for _, method := range []string{"/etcdserverpb.KV/Nothing", "/nobody.Knows/It"} {
		if err := conn.Invoke(ctx, method, &pb.RangeRequest{}, &pb.RangeResponse{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for s, want := range map[string]string{
		"127.0.0.1:1": "tcp 127.0.0.1:1", "http://h:1": "tcp h:1", "https://h:1": "tcp h:1", "unix://localhost:1": "unix localhost:1",
		"unixs:///run/e": "unix /run/e", "unix:/run/e": "unix /run/e", "unix://localhost:m0": "unix localhost:m0",
	} {
		if e, err := parseEndpoint(s); err != nil || e.network+" "+e.address != want {
			t.Errorf("%s: %+v, %v", s, e, err)
		}
	}
	for _, s := range []string{"http://h", "ftp://h:1", "http://[::1"} {
		if e, err := parseEndpoint(s); err == nil {
			t.Errorf("%s is no endpoint: %+v", s, e)
		}
	}
	if _, err := parseEndpoints(nil); err == nil {
		t.Error("no endpoint was wanted")
	}
}

// TestChecks: /livez and /readyz answer as etcd's pages of these names, and pages of other origins may read the answers.
func TestChecks(t *testing.T) {
	etcd := startEtcd(t)
	ask := func(base, path string) string {
		r := must(http.Get(base + path))(t)
		defer r.Body.Close()
		lines := strings.Split(string(must(io.ReadAll(r.Body))(t)), "\n")
		slices.Sort(lines) // etcd's order is random
		return fmt.Sprint(r.StatusCode, r.Header.Get("Content-Type"), r.Header.Get("Access-Control-Allow-Origin"), lines)
	}
	gateway := "http://" + startGateway(t, Options{Endpoints: []string{etcd}})
	etcd = "http://" + etcd
	for _, path := range []string{
		"/readyz", "/readyz?verbose", "/readyz?exclude=non_learner&verbose", "/readyz/linearizable_read",
		"/readyz/data_corruption?verbose=1", "/readyz/nothing", "/livez",
	} {
		if got, want := ask(gateway, path), ask(etcd, path); got != want {
			t.Errorf("%s: %s, etcd: %s", path, got, want)
		}
	}
	for _, base := range []string{gateway, etcd} {
		request := must(http.NewRequest(http.MethodOptions, base+"/v3/kv/range", nil))(t)
		r := must(http.DefaultClient.Do(request))(t)
		if r.Body.Close(); r.StatusCode != http.StatusOK || r.Header.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("OPTIONS at %s: %s, %v", base, r.Status, r.Header)
		}
	}
}
