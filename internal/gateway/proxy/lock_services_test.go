package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/locks"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
)

// lockClients are clients of etcd's services at one address.
type lockClients struct {
	v3lockpb.LockClient
	v3electionpb.ElectionClient
	pb.LeaseClient
	pb.KVClient
	conn *grpc.ClientConn
}

func locksAt(t *testing.T, address string) *lockClients {
	t.Helper()
	c := connect(t, address)
	return &lockClients{
		v3lockpb.NewLockClient(c), v3electionpb.NewElectionClient(c), pb.NewLeaseClient(c), pb.NewKVClient(c), c,
	}
}

// grant makes a lease with a number, which decides the names of keys.
func (l *lockClients) grant(t *testing.T, id, ttl int64) {
	t.Helper()
	must(l.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: id, TTL: ttl}))(t)
}

// TestLocksOfPlacedKeys makes and removes keys by etcd's services for locks and elections, and by leases, while they are placed: both
// gateways show each change at once, and no key counts as written past the gateways.
func TestLocksOfPlacedKeys(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 4)
	p := placedLocks{startCached(t, etcd, cluster, Cache{}), startCached(t, etcd, cluster, Cache{})}
	s := locksAt(t, p[0].address)
	s.grant(t, 0xa1, 60)
	p.locks(t, s)
	p.elections(t, s)
	p.leases(t, s)
	if r := must(open(t, etcd).Get(t.Context(), "/netcraq/gateway/excluded/", clientv3.WithPrefix()))(t); r.Count > 0 {
		t.Errorf("these count as written past the gateways: %v", r.Kvs)
	}
}

// placedLocks are the gateways that place keys of locks.
type placedLocks []*cachedGateway

// shows expects a value, or none, at all gateways after an answer with a header.
func (p placedLocks) shows(t *testing.T, key string, header *pb.ResponseHeader, values ...string) {
	t.Helper()
	for i, g := range p {
		r := must(g.client.Get(t.Context(), key))(t)
		var got []string
		for _, kv := range r.Kvs {
			got = append(got, string(kv.Value))
		}
		if !slices.Equal(got, values) || r.Header.Revision < header.Revision {
			t.Errorf("gateway %d after revision %d: %v", i, header.Revision, r)
		}
	}
}

// absent reads a key until all gateways read from the chain that it does not exist. A key that had a lease is not placed again before
// it is read with a value.
func (p placedLocks) absent(t *testing.T, key string) {
	t.Helper()
	for _, g := range p {
		if r := g.hot(t, key); len(r.Kvs) > 0 {
			t.Errorf("absent and placed: %v", r)
		}
	}
}

func (p placedLocks) locks(t *testing.T, s *lockClients) {
	ctx := t.Context()
	p.absent(t, "lock/a1")
	lock := must(s.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("lock"), Lease: 0xa1}))(t)
	if string(lock.Key) != "lock/a1" {
		t.Fatalf("lock: %v", lock)
	}
	p.shows(t, "lock/a1", lock.Header, "")
	unlock := must(s.Unlock(ctx, &v3lockpb.UnlockRequest{Key: lock.Key}))(t)
	p.shows(t, "lock/a1", unlock.Header)
}

func (p placedLocks) elections(t *testing.T, s *lockClients) {
	ctx := t.Context()
	p.absent(t, "seat/a1")
	campaign := must(s.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("seat"), Lease: 0xa1, Value: []byte("1")}))(t)
	p.shows(t, "seat/a1", campaign.Header, "1")
	stream := must(s.Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte("seat")}))(t)
	for _, value := range []string{"1", "2", "3"} {
		if value != "1" {
			proclaim := must(s.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: campaign.Leader, Value: []byte(value)}))(t)
			p.shows(t, "seat/a1", proclaim.Header, value)
		}
		if seen := must(stream.Recv())(t); string(seen.Kv.Value) != value || seen.Header.Revision < seen.Kv.ModRevision {
			t.Errorf("observed %v, want %s", seen, value)
		}
	}
	leader := must(s.Leader(ctx, &v3electionpb.LeaderRequest{Name: []byte("seat")}))(t)
	if string(leader.Kv.Key) != "seat/a1" || string(leader.Kv.Value) != "3" {
		t.Errorf("leader %v", leader)
	}
	resign := must(s.Resign(ctx, &v3electionpb.ResignRequest{Leader: campaign.Leader}))(t)
	p.shows(t, "seat/a1", resign.Header)
}

// leases has etcd delete keys at the end of their leases.
func (p placedLocks) leases(t *testing.T, s *lockClients) {
	ctx := t.Context()
	p.absent(t, "other/a1")
	must(s.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("other"), Lease: 0xa1}))(t)
	revoke := must(s.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 0xa1}))(t)
	p.shows(t, "other/a1", revoke.Header)

	p.absent(t, "lock/a2")
	s.grant(t, 0xa2, 3)
	lock := must(s.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("lock"), Lease: 0xa2}))(t)
	watch := p[0].client.Watch(ctx, "lock/a2", clientv3.WithRev(lock.Header.Revision))
	for ended := false; !ended; {
		answer := <-watch
		for _, e := range answer.Events {
			if ended = e.Type == mvccpb.Event_DELETE; ended { // by etcd, when the lease has run out
				p.shows(t, "lock/a2", answer.Header)
			}
		}
	}
}

// TestLocksUnderLoad has clients use locks, elections and leases over two gateways whose keys are placed at the first read.
func TestLocksUnderLoad(t *testing.T) {
	etcd, seed := startEtcd(t), seedtest.Seed(t)
	cluster, _ := between(t, startChain(t, 3, 4), seed, 0.02)
	o := Cache{Placement: placement.Defaults()}
	o.Placement.Pinned = []string{""}
	a, b := startCached(t, etcd, cluster, o), startCached(t, etcd, cluster, o)
	w := gatewaycheck.Workload{
		Prefix: "hot/", Keys: 4, Clients: 8, Ops: 200, KeyOps: 400, Timeout: time.Minute, Settle: time.Minute, Seed: seed, Locks: 4,
	}
	record := w.Run(t.Context(), gatewaycheck.Of(a.client, b.client))
	check(t, record, open(t, etcd), w.Prefix)
	kinds := record.Kinds()
	for _, k := range []gatewaycheck.Kind{
		gatewaycheck.Lock, gatewaycheck.Unlock, gatewaycheck.Campaign, gatewaycheck.Proclaim, gatewaycheck.Resign, gatewaycheck.Leader,
		gatewaycheck.Observe,
	} {
		if kinds[k.String()] == 0 {
			t.Errorf("no %v was answered: %v", k, kinds)
		}
	}
	if hits := a.cache.Stats().Hits + b.cache.Stats().Hits; hits < uint64(w.Clients*w.Ops/50) {
		t.Errorf("%d hits: the chain is hardly tried", hits)
	}
}

// TestLocksAsEtcd compares answers and errors with those of an etcd without a gateway.
func TestLocksAsEtcd(t *testing.T) {
	plain, etcd := startEtcd(t), startEtcd(t)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	etcdtest.LocksAlike(t, a.address, plain)
	s := locksAt(t, a.address)
	lock := must(s.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("fresh")}))(t) // under a lease of its own
	header := must(open(t, etcd).Get(t.Context(), "x"))(t).Header
	if h := lock.Header; h.ClusterId != header.ClusterId || h.MemberId != header.MemberId || h.RaftTerm != header.RaftTerm || h.Revision < 2 {
		t.Errorf("header %v, etcd's is %v", h, header)
	}
	r := must(open(t, etcd).Get(t.Context(), string(lock.Key)))(t)
	if len(r.Kvs) != 1 || r.Kvs[0].Lease == 0 || string(lock.Key) != fmt.Sprintf("fresh/%x", r.Kvs[0].Lease) {
		t.Errorf("the lock's key: %v", r)
	}
}

// TestLockOfAllKeys: the gateways' own keys begin with a slash as well, and are older. They do not hold a lock without a name.
func TestLockOfAllKeys(t *testing.T) {
	etcd := startEtcd(t)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	a.hot(t, "k") // so there is a directory
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := locksAt(t, a.address)
	if lock, err := s.Lock(ctx, new(v3lockpb.LockRequest)); err != nil || !bytes.HasPrefix(lock.GetKey(), []byte("/")) {
		t.Errorf("%v, %v", lock, err)
	}
}

// TestLockIsGivenUp: a lock that its client does not wait for any more, or whose gateway ends, leaves no key.
func TestLockIsGivenUp(t *testing.T) {
	etcd := startEtcd(t)
	direct := open(t, etcd)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	s, waiting := locksAt(t, a.address), make(chan bool, 10)
	handle := a.server.locks.Handle
	a.server.locks.Handle = func(method string, down grpc.ServerStream) error {
		if method == methodWatch {
			down = &watched{down, newCodec(), waiting}
		}
		return handle(method, down)
	}
	waits := func(ctx context.Context, id int64) chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := s.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: id})
			ended <- err
		}()
		<-waiting
		return ended
	}
	for _, id := range []int64{0xc1, 0xc2, 0xc3} {
		s.grant(t, id, 600)
	}
	held := must(s.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: 0xc1}))(t)
	events := direct.Watch(t.Context(), "l/", clientv3.WithPrefix(), clientv3.WithRev(held.Header.Revision+1))
	gone := func(key string) {
		t.Helper()
		for r := range events {
			for _, e := range r.Events {
				if e.Type == mvccpb.Event_DELETE && string(e.Kv.Key) == key {
					return
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := waits(ctx, 0xc2)
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	gone("l/c2")
	ended = waits(t.Context(), 0xc3)
	a.stop()
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("the gateway ended: %v", err)
	}
	gone("l/c3")
}

// watched tells when a watch is created.
type watched struct {
	grpc.ServerStream
	codec   codec
	created chan bool
}

func (w *watched) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	var r pb.WatchRequest
	if err == nil && w.codec.Unmarshal(m.(*frame).data, &r) == nil && r.GetCreateRequest() != nil {
		w.created <- true
	}
	return err
}

// TestLocksAsJSON: the pages' calls take the same path.
func TestLocksAsJSON(t *testing.T) {
	a := startCached(t, startEtcd(t), startChain(t, 3, 1), Cache{})
	s := locksAt(t, a.address)
	s.grant(t, 0xd1, 60)
	a.hot(t, "lock/d1")
	r := must(http.Post("http://"+a.address+"/v3/lock/lock", "application/json", strings.NewReader(`{"name":"bG9jaw==","lease":209}`)))(t)
	defer r.Body.Close()
	var answer struct{ Key []byte }
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || string(answer.Key) != "lock/d1" {
		t.Fatalf("%s %+v %v", r.Status, answer, err)
	}
	if r := must(a.client.Get(t.Context(), "lock/d1"))(t); len(r.Kvs) != 1 {
		t.Errorf("after the lock: %v", r)
	}
}

// TestOwnLeasesStay: a client cannot end the lease of a gateway's session, on whose time to live the others rely.
func TestOwnLeasesStay(t *testing.T) {
	etcd := startEtcd(t)
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	a.hot(t, "k")
	for _, l := range must(open(t, etcd).Leases(t.Context()))(t).Leases {
		if _, err := a.client.Revoke(t.Context(), l.ID); err == nil {
			t.Errorf("lease %x was revoked", l.ID)
		}
	}
	if n := len(must(open(t, etcd).Leases(t.Context()))(t).Leases); n == 0 {
		t.Error("the session's lease is gone")
	}
}

// TestEveryMethodIsKnown: a method of etcd's API that is new has to be looked at. It may write keys.
func TestEveryMethodIsKnown(t *testing.T) {
	guarded := map[string]bool{methodPut: true, methodDeleteRange: true, methodTxn: true}
	a := locks.New(newCodec(), ownFirst, nil)
	defer a.Close()
	for _, desc := range []*grpc.ServiceDesc{
		&pb.KV_ServiceDesc, &pb.Watch_ServiceDesc, &pb.Lease_ServiceDesc, &pb.Cluster_ServiceDesc, &pb.Maintenance_ServiceDesc,
		&pb.Auth_ServiceDesc, &v3lockpb.Lock_ServiceDesc, &v3electionpb.Election_ServiceDesc, &grpc_health_v1.Health_ServiceDesc,
	} {
		var methods []string
		for _, m := range desc.Methods {
			methods = append(methods, m.MethodName)
		}
		for _, m := range desc.Streams {
			methods = append(methods, m.StreamName)
		}
		for _, method := range methods {
			full := "/" + desc.ServiceName + "/" + method
			e := core.ExecutionOf(desc.ServiceName, method, 0)
			if e == core.Refused || (e == core.Guarded) != guarded[full] || (e == core.Served) != (a.Calls[full].Answer != nil) {
				t.Errorf("%s: %v", full, e)
			}
		}
	}
}

// TestUnknownMethodsOfACache: a gateway that caches passes on no call that might write keys.
func TestUnknownMethodsOfACache(t *testing.T) {
	a := startCached(t, startEtcd(t), startChain(t, 3, 1), Cache{})
	conn := connect(t, a.address)
	for _, method := range []string{"/etcdserverpb.KV/Nothing", "/nobody.Knows/It"} {
		err := conn.Invoke(t.Context(), method, &pb.RangeRequest{}, &pb.RangeResponse{})
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "cached") {
			t.Errorf("%s: %v", method, err)
		}
	}
}
