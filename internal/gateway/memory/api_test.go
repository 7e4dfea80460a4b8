package memory

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// pair starts an active gateway and another one.
func pair(t *testing.T) (active, other *gateway) {
	cluster := startChain(t)
	active = start(t, cluster, Options{})
	active.waitActive(t)
	return active, start(t, cluster, Options{})
}

func TestWatch(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c, ctx := open(t, g.address), clientv3.WithRequireLeader(t.Context())
		from := must(c.Put(ctx, "w", "0"))(t).Header.Revision
		history := c.Watch(ctx, "w", clientv3.WithRev(from), clientv3.WithPrevKV(), clientv3.WithFragment())
		deletes := c.Watch(ctx, "w", clientv3.WithRev(from), clientv3.WithFilterPut())
		must(c.Put(ctx, "w", "1"))(t)
		d := must(c.Delete(ctx, "w"))(t)
		var events []*clientv3.Event
		for len(events) < 3 {
			r := <-history
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
			events = append(events, r.Events...)
		}
		if string(events[0].Kv.Value) != "0" || string(events[1].PrevKv.Value) != "0" ||
			events[2].Type != clientv3.EventTypeDelete || string(events[2].PrevKv.Value) != "1" {
			t.Errorf("%v", events)
		}
		if r := <-deletes; len(r.Events) != 1 || r.Events[0].Kv.ModRevision != d.Header.Revision {
			t.Errorf("%v", r)
		}
		if err := c.RequestProgress(ctx); err != nil {
			t.Fatal(err)
		}
		if r := <-history; !r.IsProgressNotify() || r.Header.Revision < d.Header.Revision {
			t.Errorf("%v", r)
		}
		must(c.Compact(ctx, d.Header.Revision))(t)
		for serializable := clientv3.OpGet("w", clientv3.WithRev(from), clientv3.WithSerializable()); ; {
			if _, err := c.Do(ctx, serializable); errors.Is(err, rpctypes.ErrCompacted) {
				break // this gateway has compacted too
			}
		}
		if r := <-c.Watch(ctx, "w", clientv3.WithRev(from)); !errors.Is(r.Err(), rpctypes.ErrCompacted) ||
			r.CompactRevision != d.Header.Revision {
			t.Errorf("%v", r)
		}
	}
}

func TestLeases(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c, ctx := open(t, g.address), t.Context()
		short := must(c.Grant(ctx, 2))(t)
		p := must(c.Put(ctx, "short", "", clientv3.WithLease(short.ID)))(t)
		long := must(c.Grant(ctx, 1000))(t)
		must(c.Put(ctx, "long", "", clientv3.WithLease(long.ID)))(t)
		if r := must(c.TimeToLive(ctx, long.ID, clientv3.WithAttachedKeys()))(t); r.GrantedTTL != 1000 || r.TTL < 900 ||
			len(r.Keys) != 1 {
			t.Errorf("%v", r)
		}
		if r := must(c.KeepAliveOnce(ctx, long.ID))(t); r.TTL != 1000 {
			t.Errorf("%v", r)
		}
		if _, err := c.KeepAliveOnce(ctx, 99); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			t.Errorf("a lease that does not exist was renewed: %v", err)
		}
		if r := must(c.Leases(ctx))(t); len(r.Leases) != 2 {
			t.Errorf("%v", r)
		}
		if r := <-c.Watch(ctx, "short", clientv3.WithRev(p.Header.Revision+1)); len(r.Events) != 1 ||
			r.Events[0].Type != clientv3.EventTypeDelete {
			t.Errorf("after the lease's end: %v", r)
		}
		must(c.Revoke(ctx, long.ID))(t)
		if r := must(c.Get(ctx, "long"))(t); len(r.Kvs) != 0 {
			t.Errorf("%v", r)
		}
	}
}

func TestRefusals(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c, ctx := open(t, g.address), t.Context()
		first := must(c.Put(ctx, "k", "1"))(t).Header.Revision
		put, history := clientv3.OpPut("k", ""), clientv3.OpGet("k", clientv3.WithRev(first))
		for _, test := range []struct {
			name string
			do   func() error
			want codes.Code
		}{
			{"no key", func() error { _, err := c.Put(ctx, "", ""); return err }, codes.InvalidArgument},
			{"a key twice", func() error { _, err := c.Txn(ctx).Then(put, put).Commit(); return err }, codes.InvalidArgument},
			{"a key in a deleted range", func() error {
				_, err := c.Txn(ctx).Then(put, clientv3.OpDelete("a", clientv3.WithRange("z"))).Commit()
				return err
			}, codes.InvalidArgument},
			{"a key twice, nested", func() error {
				_, err := c.Txn(ctx).Then(put, clientv3.OpTxn(nil, []clientv3.Op{put}, nil)).Commit()
				return err
			}, codes.InvalidArgument},
			{"too many operations", func() error {
				_, err := c.Txn(ctx).Then(slices.Repeat([]clientv3.Op{clientv3.OpGet("k")}, 129)...).Commit()
				return err
			}, codes.InvalidArgument},
			{"a write with a read of history", func() error {
				_, err := c.Txn(ctx).Then(put, history).Commit()
				return err
			}, codes.Unimplemented},
			{"a revision of the future", func() error {
				_, err := c.Get(ctx, "k", clientv3.WithRev(1<<60))
				return err
			}, codes.OutOfRange},
			{"a lease that does not exist", func() error {
				_, err := c.Put(ctx, "k", "", clientv3.WithLease(77))
				return err
			}, codes.NotFound},
			{"a member", func() error { _, err := c.MemberAdd(ctx, []string{"http://h:1"}); return err }, codes.Unimplemented},
		} {
			err := test.do()
			var known rpctypes.EtcdError
			code := status.Code(err)
			if errors.As(err, &known) {
				code = known.Code()
			}
			if code != test.want {
				t.Errorf("%s: %v (%v), want %v", test.name, err, code, test.want)
			}
		}
		both := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("k"), ">", 0)}, []clientv3.Op{put},
			[]clientv3.Op{put})
		if r := must(c.Txn(ctx).Then(both).Commit())(t); !r.Responses[0].GetResponseTxn().Succeeded {
			t.Errorf("%v", r)
		}
	}
}

func TestStatusAndPages(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c := open(t, g.address)
		must(c.Put(t.Context(), "k", ""))(t)
		r := must(c.Status(t.Context(), g.address))(t)
		if active := r.Leader == r.Header.MemberId; active != (g == a) || r.Version == "" || len(r.Errors) != 0 {
			t.Errorf("%v", r)
		}
		for path, want := range map[string]string{
			"/health": `"health":"true"`, "/version": `"etcdserver":"3.`, "/metrics": "etcd_",
		} {
			page := must(http.Get("http://" + g.address + path))(t)
			text := must(io.ReadAll(page.Body))(t)
			page.Body.Close()
			if page.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
				t.Errorf("%s: %s", path, page.Status)
			}
		}
	}
}

// TestRangeStream: the pieces of a range make the answer of Range.
func TestRangeStream(t *testing.T) {
	a, b := pair(t)
	value := strings.Repeat("v", fragmentBytes/2)
	for _, g := range []*gateway{a, b} {
		c := open(t, g.address)
		for _, key := range []string{"r/1", "r/2", "r/3", "s"} {
			must(c.Put(t.Context(), key, value))(t)
		}
		kv := pb.NewKVClient(c.ActiveConnection())
		for _, q := range []*pb.RangeRequest{
			{Key: []byte("r/"), RangeEnd: []byte("r0")}, {Key: []byte{0}, RangeEnd: []byte{0}}, {Key: []byte("r/1")},
			{Key: []byte("r/"), RangeEnd: []byte("r0"), Limit: 2}, {Key: []byte("r/"), RangeEnd: []byte("r0"), Limit: 3},
			{Key: []byte("r/"), RangeEnd: []byte("r0"), KeysOnly: true}, {Key: []byte("t")},
			{Key: []byte("r/"), RangeEnd: []byte("r0"), CountOnly: true}, {Key: []byte("t"), RangeEnd: []byte("u")},
		} {
			want := must(kv.Range(t.Context(), q))(t)
			stream := must(kv.RangeStream(t.Context(), q))(t)
			got, pieces := new(pb.RangeResponse), 0
			for {
				piece, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				proto.Merge(got, must(piece, err)(t).RangeResponse)
				pieces++
			}
			if proto.Size(want) > 2*fragmentBytes && pieces < 2 || !proto.Equal(got, want) {
				t.Errorf("%v: %d pieces with %d objects, %v, %d, %v; want %d, %v, %d, %v", q, pieces, len(got.Kvs),
					got.Header, got.Count, got.More, len(want.Kvs), want.Header, want.Count, want.More)
			}
		}
		q := &pb.RangeRequest{Key: []byte("r/"), RangeEnd: []byte("r0")}
		q.SortOrder = pb.RangeRequest_DESCEND
		if _, err := must(kv.RangeStream(t.Context(), q))(t).Recv(); status.Code(err) != codes.Unimplemented {
			t.Errorf("another order: %v", err)
		}
	}
}

// TestLongHeader: a request of a page with a long header takes no memory.
func TestLongHeader(t *testing.T) {
	a, _ := pair(t)
	q := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.address+"/version", nil))(t)
	q.Header.Set("x", strings.Repeat("x", 128<<10))
	page := must(http.DefaultClient.Do(q))(t)
	page.Body.Close()
	if page.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(page.Status)
	}
}

func TestListenRefuses(t *testing.T) {
	missing := serve.TowardsClients{Cert: "missing.crt", Key: "missing.key"}
	for _, test := range []struct {
		o    ServerOptions
		want string // in the error
	}{
		{ServerOptions{Listen: "nowhere:x"}, "--listen"},
		{ServerOptions{Listen: "0.0.0.0:0"}, "--advertise-client-url"},
		{ServerOptions{Listen: "127.0.0.1:0", Options: Options{Advertise: "h"}}, "--advertise-client-url"},
		{ServerOptions{Listen: "127.0.0.1:0", Clients: missing}, "--cacert"},
		{ServerOptions{
			Listen: "127.0.0.1:0", Clients: missing,
			PeerCertificates: serve.TowardsEtcd{SkipVerify: true},
		}, "missing.crt"},
	} {
		if _, err := Listen(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.o, err, test.want)
		}
	}
}

// A gateway that finds its keyspace damaged ends.
func TestLostKeyspace(t *testing.T) {
	cluster := startChain(t)
	chain := softchain.Connect(t, cluster)
	s, err := Listen(ServerOptions{Listen: "127.0.0.1:0", Options: Options{
		Chain: chain, LogEntries: 64, LockTTL: time.Minute, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	(&gateway{Server: s}).waitActive(t)
	c := open(t, s.Addr().String())
	must(c.Put(t.Context(), "k", ""))(t)
	for i := range 64 {
		must(chain.Delete(t.Context(), fmt.Sprintf("memory/%s/log/%d", DefaultName, i)))(t)
	}
	if _, err := c.Put(t.Context(), "k", ""); err == nil {
		t.Error("a write was acknowledged without its log")
	}
	if err := <-ended; !errors.Is(err, chainlog.ErrLost) {
		t.Errorf("the gateway ended: %v", err)
	}
}

// TestLostDescription: the chain has lost the description of a keyspace, and no other object of it. The next gateway
// ends instead of making the keyspace anew over what clients have written.
func TestLostDescription(t *testing.T) {
	o := Options{LogEntries: 64}
	a := start(t, startChain(t), o)
	a.waitActive(t)
	must(open(t, a.address).Put(t.Context(), "k", "acknowledged"))(t)
	a.kill()
	o.Chain, o.Log = softchain.Connect(t, a.cluster), slog.New(slog.NewTextHandler(t.Output(), nil))
	must(o.Chain.Delete(t.Context(), "memory/"+DefaultName+"/meta"))(t)
	s := must(Listen(ServerOptions{Listen: "127.0.0.1:0", Options: o}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Serve(ctx); !errors.Is(err, chainlog.ErrLost) {
		t.Errorf("the gateway ended: %v", err)
	}
}

// TLS: clients and other gateways.
func TestSecure(t *testing.T) {
	cluster := startChain(t)
	var addresses []string
	var first *Server // it is active, because it starts alone
	for range 2 {
		s, err := Listen(ServerOptions{
			Listen: "127.0.0.1:0", Clients: serve.TowardsClients{Auto: true, Dir: t.TempDir(), Years: 1},
			PeerCertificates: serve.TowardsEtcd{SkipVerify: true},
			Options: Options{
				Chain: softchain.Connect(t, cluster), LogEntries: 64, LockTTL: time.Minute,
				Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		addresses = append(addresses, "https://"+s.Addr().String())
		if first == nil {
			first = s
			(&gateway{Server: s}).waitActive(t)
		}
	}
	for _, address := range addresses {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{address}, TLS: &tls.Config{InsecureSkipVerify: true}, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		must(c.Put(t.Context(), "k", address))(t)
		if r := must(c.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != address {
			t.Errorf("%v", r)
		}
	}
}
