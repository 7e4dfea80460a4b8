package member

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// loneMember is a cluster of one member.
type loneMember struct {
	*etcdtest.Member
	services map[string]grpc.ServiceInfo // of etcd's own gRPC server
}

// lone starts an etcd, plain if there is no front, with TLS or without.
func lone(t *testing.T, f *Front, secure *transport.TLSInfo) *loneMember {
	t.Helper()
	m := &loneMember{}
	registered := make(chan map[string]grpc.ServiceInfo, 1)
	c := etcdtest.Start(t, 1, func(_ int, started *etcdtest.Member) {
		started.TLS = secure
		started.Config = func(c *embed.Config) {
			c.ServiceRegister = func(s *grpc.Server) { registered <- s.GetServiceInfo() }
			c.CORS, c.HostWhitelist = map[string]struct{}{"http://pages": {}}, map[string]struct{}{"127.0.0.1": {}}
			if f != nil {
				f.Configure(c)
				started.Started = f.Running
			}
		}
	})
	m.Member, m.services = c.Members[0], <-registered
	if f != nil {
		f.Start(m.Server, of{new(shared), m.Server})
	}
	return m
}

// methodsOf lists the paths of all methods, and whether they are streams.
func methodsOf(services map[string]grpc.ServiceInfo) map[string]bool {
	all := make(map[string]bool)
	for name, service := range services {
		for _, method := range service.Methods {
			all["/"+name+"/"+method.Name] = method.IsClientStream || method.IsServerStream
		}
	}
	return all
}

// answersOf calls all methods with an empty request and in other unusual ways, and returns the errors.
func answersOf(t *testing.T, m *loneMember) map[string]string {
	t.Helper()
	conn := m.dial(t, m.ClientTLS())
	answers := map[string]string{"pings": m.pings(t)}
	call := func(name, path string, request any, md ...string) {
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), metadata.Pairs(md...)), time.Minute)
		defer cancel()
		s := status.Convert(conn.Invoke(ctx, path, request, new(emptypb.Empty)))
		answers[name] = fmt.Sprint(s.Code(), ": ", s.Message())
	}
	waiting := []string{ // or random: see TestEverythingIsRevealed
		"/grpc.health.v1.Health/Watch", "/etcdserverpb.Maintenance/Snapshot", "/v3electionpb.Election/Observe",
		"/v3electionpb.Election/Campaign", "/v3lockpb.Lock/Lock", "/etcdserverpb.Watch/Watch",
	}
	methods := methodsOf(m.services)
	for _, path := range slices.Sorted(maps.Keys(methods)) {
		switch stream := methods[path]; {
		case slices.Contains(waiting, path):
		case stream:
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
			if err == nil {
				err = s.SendMsg(new(emptypb.Empty))
			}
			if err == nil {
				err = s.CloseSend()
			}
			received := 0
			for ; err == nil; received++ {
				err = s.RecvMsg(new(emptypb.Empty))
			}
			answers[path] = fmt.Sprint(received, " messages: ", err)
			cancel()
		default:
			call(path, path, new(emptypb.Empty))
		}
	}
	const ranges = "/etcdserverpb.KV/Range"
	call("unknown service", "/etcdserverpb.Nothing/Range", new(emptypb.Empty))
	call("unknown method", "/etcdserverpb.KV/Nothing", new(emptypb.Empty))
	call("needs a leader", ranges, new(emptypb.Empty), "hasleader", "true")
	call("wrong token", ranges, new(emptypb.Empty), "token", "wrong")
	call("version", ranges, new(emptypb.Empty), "client-api-version", "3.99")
	call("not a request", ranges, wrapperspb.UInt64(7))
	call("too large", "/etcdserverpb.KV/Put", wrapperspb.Bytes(make([]byte, 4<<20)))
	call("large", "/etcdserverpb.KV/Put", wrapperspb.Bytes(make([]byte, 1700<<10)))
	if m.TLS != nil {
		m.authenticate(t, answers)
	}
	return answers
}

// counted returns the metrics of gRPC calls: one registry has those of all servers of the process.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		switch name := f.GetName(); {
		case strings.HasPrefix(name, "grpc_server_"), strings.HasPrefix(name, "etcd_network_client_grpc_"), name == "etcd_server_client_requests_total":
			for _, m := range f.Metric {
				values[fmt.Sprint(name, m.Label)] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// TestBothServersAnswerAlike: every method, unusual calls, and the metrics of them.
func TestBothServersAnswerAlike(t *testing.T) {
	t.Run("plain", func(t *testing.T) { answerAlike(t, nil) })
	t.Run("TLS", func(t *testing.T) { answerAlike(t, certificate(t)) })
}

func answerAlike(t *testing.T, secure *transport.TLSInfo) {
	var answers [2]map[string]string
	var counts [2]map[string]float64
	for i := range answers {
		m := lone(t, []*Front{nil, NewFront()}[i], secure)
		before := counted(t)
		answers[i] = answersOf(t, m)
		counts[i] = counted(t)
		for name, value := range before {
			counts[i][name] -= value
		}
		const sent = "etcd_network_client_grpc_sent_bytes_total[]"
		if counts[i][sent] == 0 {
			t.Error("no bytes were sent")
		}
		delete(counts[i], sent) // random numbers of members and leases differ in length
		maps.DeleteFunc(counts[i], func(_ string, value float64) bool { return value == 0 })
		if i == 1 && len(answers[1]) < 50 {
			t.Errorf("only %d answers", len(answers[1]))
		}
	}
	for name, want := range answers[0] {
		if got := answers[1][name]; got != want {
			t.Errorf("%s: %q, etcd: %q", name, got, want)
		}
	}
	for name, want := range counts[0] {
		if got := counts[1][name]; got != want {
			t.Errorf("%s: %v, etcd: %v", name, got, want)
		}
	}
}

// TestPagesStay: etcd's pages, JSON API, CORS and list of hosts are as without a front.
func TestPagesStay(t *testing.T) {
	t.Run("plain", func(t *testing.T) { pagesStay(t, nil) })
	t.Run("TLS", func(t *testing.T) { pagesStay(t, certificate(t)) })
}

// decided are versions that a cluster decides some time after its start.
var decided = regexp.MustCompile(`"(etcdcluster|storage)":"[^"]*"`)

func pagesStay(t *testing.T, secure *transport.TLSInfo) {
	var answers [2]map[string]string
	for i := range answers {
		m := lone(t, []*Front{nil, NewFront()}[i], secure)
		pages := &http.Client{Transport: &http.Transport{TLSClientConfig: m.ClientTLS(), ForceAttemptHTTP2: true}}
		defer pages.CloseIdleConnections()
		answers[i] = make(map[string]string)
		for _, page := range []struct{ verb, path, body, origin, host string }{
			{verb: http.MethodGet, path: "/health"},
			{verb: http.MethodGet, path: "/livez"},
			{verb: http.MethodGet, path: "/readyz"},
			{verb: http.MethodGet, path: "/version"},
			{verb: http.MethodGet, path: "/debug/vars"},
			{verb: http.MethodGet, path: "/metrics"},
			{verb: http.MethodGet, path: "/nothing"},
			{verb: http.MethodOptions, path: "/v3/kv/range", origin: "http://pages"},
			{verb: http.MethodGet, path: "/version", host: "elsewhere"},
			{verb: http.MethodPost, path: "/v3/kv/put", body: `{"key":"ag==","value":"ag=="}`},
			{verb: http.MethodPost, path: "/v3/kv/range", body: `{"key":"ag=="}`},
			{verb: http.MethodPost, path: "/v3/auth/status", body: `{}`},
			{verb: http.MethodPost, path: "/v3/kv/range", body: `{`},
		} {
			r, err := http.NewRequestWithContext(t.Context(), page.verb, m.ClientURL()+page.path, strings.NewReader(page.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Origin", page.origin)
			if page.host != "" {
				r.Host = page.host
			}
			a, err := pages.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if page.path == "/metrics" || page.path == "/debug/vars" { // counters
				text = nil
			}
			text = bytes.ReplaceAll(text, []byte(fmt.Sprint(uint64(m.Server.MemberID()))), []byte("MEMBER"))
			text = bytes.ReplaceAll(text, []byte(fmt.Sprint(uint64(m.Server.Cluster().ID()))), []byte("CLUSTER"))
			text = decided.ReplaceAll(text, []byte("$1"))
			answers[i][page.verb+page.path+page.host+page.body] = fmt.Sprint(a.StatusCode, a.Header["Access-Control-Allow-Origin"], string(text))
		}
	}
	for name, want := range answers[0] {
		if got := answers[1][name]; got != want {
			t.Errorf("%s: %q, etcd: %q", name, got, want)
		}
	}
}

// TestStopEndsConnections: after a stop no connection is left, and calls that come in time are answered.
func TestStopEndsConnections(t *testing.T) {
	c, fronts, _ := start(t)
	put(t, c.Members[0], "k", "v")
	watch := c.Members[0].Client.Watch(clientv3.WithRequireLeader(t.Context()), "k", clientv3.WithRev(1))
	if r := <-watch; len(r.Events) != 1 {
		t.Fatal(r.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fronts[0].Stop(ctx)
	fronts[0].Stop(ctx)
	short, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if _, err := c.Members[0].Client.Get(short, "k"); err == nil {
		t.Error("answered after the stop")
	}
	get(t, c.Members[1], "k")
}

// TestStopLeavesNoClient: the client that a server's locks use ends with the server.
func TestStopLeavesNoClient(t *testing.T) {
	const loop = "(*lessor).deadlineLoop(" // of a client that has kept a lease alive
	running := func() int {
		stacks := make([]byte, 1<<22)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), loop)
	}
	before := running() // those of plain etcd stay
	m := lone(t, NewFront(), nil)
	lock := v3lockpb.NewLockClient(m.Client.ActiveConnection())
	if _, err := lock.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l")}); err != nil {
		t.Fatal(err)
	}
	if running() <= before {
		t.Fatalf("no client has %s", loop)
	}
	m.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); running() > before; {
		if !pauses.Wait(ctx) {
			t.Fatal("the client has not ended")
		}
	}
}
