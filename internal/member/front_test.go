package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// shared is a register in the test's process, as a chain that always answers would be.
type shared struct {
	mu      sync.Mutex
	point   core.Point
	frozen  bool // the point stays as it is
	away    bool // nobody knows a read point
	paused  int
	changes []string
	block   chan struct{} // until it is closed, nothing may be shown; nil: at once
	wants   chan struct{} // closed when somebody waits for block
	asked   int64         // the newest revision that somebody wanted to show
}

// of is the register as one member uses it.
type of struct {
	*shared
	server *etcdserver.EtcdServer
}

func (s of) ReadPoint(then func(core.Point, Reason)) {
	s.mu.Lock()
	p, why := s.point, None
	if s.away {
		p, why = core.Point{}, ReasonOf(core.NoChain)
	}
	s.mu.Unlock()
	then(p, why)
}

func (s of) Reveal(ctx context.Context, p core.Point) error {
	s.mu.Lock()
	s.asked = max(s.asked, p.Revision)
	if !s.frozen {
		if p.Revision > s.point.Revision || p.Index > s.point.Index {
			s.point.Index = max(s.point.Index, s.server.AppliedIndex())
		}
		s.point.Revision = max(s.point.Revision, p.Revision)
	}
	block := s.block
	if s.wants != nil {
		close(s.wants)
		s.wants = nil
	}
	s.mu.Unlock()
	if block == nil {
		return nil
	}
	select {
	case <-block:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s of) Pause(context.Context) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused++
	s.changes = append(s.changes, "pause")
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes = append(s.changes, "resume")
	}, nil
}

// start runs three members with one register. The front serves their clients' connections.
func start(t *testing.T) (*etcdtest.Cluster, []*Front, *shared) {
	t.Helper()
	return startWith(t, (*Front).Configure)
}

func startWith(t *testing.T, configure func(*Front, *embed.Config)) (*etcdtest.Cluster, []*Front, *shared) {
	t.Helper()
	register := new(shared)
	fronts := make([]*Front, 3)
	c := etcdtest.Start(t, len(fronts), func(i int, m *etcdtest.Member) {
		fronts[i] = NewFront()
		m.Config = func(c *embed.Config) { configure(fronts[i], c) }
	})
	for i, m := range c.Members {
		fronts[i].Start(m.Server, of{register, m.Server})
	}
	return c, fronts, register
}

func put(t *testing.T, m *etcdtest.Member, key, value string) int64 {
	t.Helper()
	r, err := m.Client.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func get(t *testing.T, m *etcdtest.Member, key string, options ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	r, err := m.Client.Get(t.Context(), key, options...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReadsSeeWhatWasShown: a read after an answered write sees it, at any member, by Range, a transaction, or a stream.
func TestReadsSeeWhatWasShown(t *testing.T) {
	c, fronts, _ := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func() *etcdtest.Member { return c.Members[r.IntN(len(c.Members))] }
	put(t, c.Members[0], "k", "")
	for round := range 500 {
		value, reader := fmt.Sprint(round), pick()
		revision := put(t, pick(), "k", value)
		var got string
		var at int64
		switch round % 3 {
		case 0:
			a := get(t, reader, "k")
			got, at = string(a.Kvs[0].Value), a.Header.Revision
		case 1:
			a, err := reader.Client.Txn(t.Context()).Then(clientv3.OpGet("k")).Commit()
			if err != nil {
				t.Fatal(err)
			}
			inner := a.Responses[0].GetResponseRange()
			got, at = string(inner.Kvs[0].Value), a.Header.Revision
			if inner.Header.Revision != at {
				t.Fatalf("the header of the operation has %d, that of the transaction %d", inner.Header.Revision, at)
			}
		case 2:
			a, err := reader.Client.Txn(t.Context()).If(clientv3.Compare(clientv3.Value("k"), "=", value)).
				Then(clientv3.OpGet("k")).Else(clientv3.OpGet("none")).Commit()
			if err != nil {
				t.Fatal(err)
			}
			if !a.Succeeded {
				t.Fatalf("round %d: a comparison did not see the value", round)
			}
			got, at = string(a.Responses[0].GetResponseRange().Kvs[0].Value), a.Header.Revision
		}
		if got != value || at < revision {
			t.Fatalf("round %d: %q at %d, after %q at %d", round, got, at, value, revision)
		}
	}
	var fast uint64
	for _, f := range fronts {
		fast += f.Fast()
	}
	if fast < 499 {
		t.Errorf("%d fast reads in 500 rounds", fast)
	}
}

// freeze stops the register at what has been shown, and writes once more.
func freeze(t *testing.T, c *etcdtest.Cluster, register *shared) (old, later int64) {
	t.Helper()
	put(t, c.Members[0], "a", "other")
	old = put(t, c.Members[0], "k", "old")
	register.mu.Lock()
	register.frozen = true
	register.mu.Unlock()
	later = put(t, c.Members[0], "k", "new")
	for _, m := range c.Members {
		<-m.Server.ApplyWait(c.Members[0].Server.AppliedIndex())
	}
	return old, later
}

// TestExactly: a read answers as of the read point, though the store is newer.
func TestExactly(t *testing.T) {
	c, fronts, register := start(t)
	old, later := freeze(t, c, register)
	m, kv := c.Members[1], pb.NewKVClient(c.Members[1].Client.ActiveConnection())
	is := func(what string, header *pb.ResponseHeader, value string) {
		t.Helper()
		if header.GetRevision() != old || value != "old" || header.ClusterId == 0 || header.MemberId != uint64(m.Server.MemberID()) {
			t.Errorf("%s: %q at %v", what, value, header)
		}
	}
	a := get(t, m, "k")
	is("range", a.Header, string(a.Kvs[0].Value))
	a = get(t, m, "a", clientv3.WithRange("z"), clientv3.WithLimit(9))
	is("list", a.Header, string(a.Kvs[1].Value))
	a = get(t, m, "k", clientv3.WithRev(old))
	is("range at the read point", a.Header, string(a.Kvs[0].Value))
	x, err := m.Client.Txn(t.Context()).Then(clientv3.OpGet("k")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	is("transaction", x.Header, string(x.Responses[0].GetResponseRange().Kvs[0].Value))
	for _, request := range []*pb.RangeRequest{{Key: []byte("k")}, {Key: []byte("k"), CountOnly: true}} {
		stream, err := kv.RangeStream(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		part, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		value := "old"
		if !request.CountOnly {
			value = string(part.RangeResponse.Kvs[0].Value)
		}
		is("stream", part.RangeResponse.Header, value)
	}
	if n := fronts[1].Fast(); n != 6 {
		t.Errorf("%d fast reads", n)
	}
	// A revision that may not have been shown is read in etcd's way.
	if a := get(t, m, "k", clientv3.WithRev(later)); string(a.Kvs[0].Value) != "new" || a.Header.Revision != later {
		t.Errorf("%v", a)
	}
	if a := get(t, m, "k", clientv3.WithSerializable()); string(a.Kvs[0].Value) != "new" {
		t.Errorf("serializable: %v", a)
	}
	if n := fronts[1].Slow(Future); n != 1 {
		t.Errorf("%d slow reads", n)
	}
}

// TestCompacted: the revision of the read point may be compacted.
func TestCompacted(t *testing.T) {
	c, fronts, register := start(t)
	_, later := freeze(t, c, register)
	if _, err := c.Members[1].Client.Compact(t.Context(), later, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if a := get(t, c.Members[1], "k"); string(a.Kvs[0].Value) != "new" || a.Header.Revision != later {
		t.Errorf("%v", a)
	}
	x, err := c.Members[1].Client.Txn(t.Context()).Then(clientv3.OpGet("k")).Commit()
	if err != nil || string(x.Responses[0].GetResponseRange().Kvs[0].Value) != "new" {
		t.Errorf("%v, %v", x, err)
	}
	stream, err := pb.NewKVClient(c.Members[1].Client.ActiveConnection()).RangeStream(t.Context(), &pb.RangeRequest{Key: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	if part, err := stream.Recv(); err != nil || string(part.RangeResponse.Kvs[0].Value) != "new" || part.RangeResponse.Header.Revision != later {
		t.Errorf("%v, %v", part, err)
	}
	if failed, fast := fronts[1].Slow(Failed), fronts[1].Fast(); failed != 3 || fast != 0 {
		t.Errorf("%d reads failed, %d fast", failed, fast)
	}
}

// TestBehind: a read does not wait for ever for a read point that this member does not reach.
func TestBehind(t *testing.T) {
	c, fronts, register := start(t)
	put(t, c.Members[0], "k", "v")
	register.mu.Lock()
	register.frozen, register.point.Index = true, 1<<40
	register.mu.Unlock()
	if a := get(t, c.Members[1], "k"); string(a.Kvs[0].Value) != "v" {
		t.Errorf("%v", a)
	}
	register.mu.Lock()
	register.away = true
	register.mu.Unlock()
	if a := get(t, c.Members[1], "k"); string(a.Kvs[0].Value) != "v" {
		t.Errorf("%v", a)
	}
	if behind, unknown := fronts[1].Slow(Behind), fronts[1].Slow(ReasonOf(core.NoChain)); behind != 1 || unknown != 1 {
		t.Errorf("%d behind, %d unknown", behind, unknown)
	}
}

// TestRevisionIsStillComing: the index of a read point may be that of the entry before its revision's.
func TestRevisionIsStillComing(t *testing.T) {
	c, fronts, register := start(t)
	revision := put(t, c.Members[0], "k", "old")
	register.mu.Lock()
	register.frozen, register.point = true, core.Point{Revision: revision + 1, Index: c.Members[1].Server.AppliedIndex()}
	register.mu.Unlock()
	var reads sync.WaitGroup
	reads.Go(func() {
		a, err := c.Members[1].Client.Get(t.Context(), "k")
		if err != nil || a.Header.Revision > revision && string(a.Kvs[0].Value) != "new" {
			t.Errorf("%v, %v", a, err)
		}
	})
	put(t, c.Members[0], "k", "new")
	reads.Wait()
	if n := fronts[1].Slow(Failed); n != 0 {
		t.Errorf("%d reads at a revision that is not there yet", n)
	}
}

// TestRequestsAreCopied: etcd's interceptors use a request after the handler; and a request is asked again as it was.
func TestRequestsAreCopied(t *testing.T) {
	c := etcdtest.Start(t, 1, nil)
	f := &Front{register: of{shared: &shared{point: core.Point{Revision: 1}}}, server: c.Members[0].Server}
	failed := errors.New("refused")
	var seen []any
	handle := func(_ context.Context, request any) (any, error) {
		seen = append(seen, request)
		if len(seen) == 2 {
			panic("the unchanged request")
		}
		return nil, failed
	}
	for _, request := range []proto.Message{
		&pb.RangeRequest{Key: []byte("k"), Limit: 3},
		&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}}}},
	} {
		before := proto.Clone(request)
		seen = nil
		func() {
			defer func() { recover() }() // the handler's
			switch r := request.(type) {
			case *pb.RangeRequest:
				_, _ = f.readRange(t.Context(), r, handle)
			case *pb.TxnRequest:
				_, _ = f.readTxn(t.Context(), r, handle)
			}
		}()
		if len(seen) != 2 || seen[1] != request || seen[0] == request || !proto.Equal(request, before) {
			t.Errorf("%T: %v, then %v", request, seen, request)
		}
	}
}

func TestNeedsReadIndex(t *testing.T) {
	read := func(serializable bool) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Serializable: serializable}}}
	}
	write := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: new(pb.PutRequest)}}
	nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{read(false)}}}}
	for _, c := range []struct {
		ops  []*pb.RequestOp
		want bool
	}{
		{nil, false},
		{[]*pb.RequestOp{read(true)}, false},
		{[]*pb.RequestOp{read(true), read(false)}, true},
		{[]*pb.RequestOp{read(false), write}, false},
		{[]*pb.RequestOp{nested}, false},
	} {
		for _, txn := range []*pb.TxnRequest{{Success: c.ops}, {Failure: c.ops}} {
			if got := needsReadIndex(txn); got != c.want {
				t.Errorf("%v: %v", txn, got)
			}
		}
	}
}
