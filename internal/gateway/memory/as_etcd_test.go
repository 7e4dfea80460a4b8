package memory

import (
	"errors"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// TestMembers: every gateway names all that run, and the active one.
func TestMembers(t *testing.T) {
	a, b := pair(t)
	third := start(t, a.cluster, Options{})
	want := []string{"http://" + a.address, "http://" + b.address, "http://" + third.address}
	all := []*gateway{a, b, third}
	wait := func(g *gateway, want []string) {
		t.Helper()
		c := open(t, g.address)
		for {
			var urls []string
			for _, m := range must(c.MemberList(t.Context()))(t).Members {
				urls = append(urls, m.ClientURLs...)
			}
			if slices.Sort(urls); slices.Equal(urls, want) {
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("%v, want %v", urls, want)
			}
			pause(t.Context(), nil, pollEvery)
		}
	}
	slices.Sort(want)
	for _, g := range all {
		wait(g, want)
		r := must(open(t, g.address).Status(t.Context(), g.address))(t)
		if r.Leader != a.self.ID || len(r.Errors) > 0 {
			t.Errorf("leader %d, errors %v; want leader %d", r.Leader, r.Errors, a.self.ID)
		}
	}
	c := open(t, b.address)
	if err := c.Sync(t.Context()); err != nil || len(c.Endpoints()) != len(all) {
		t.Errorf("a client has the endpoints %v: %v", c.Endpoints(), err)
	}
	third.stop()
	want = slices.DeleteFunc(want, func(url string) bool { return url == "http://"+third.address })
	wait(a, want)
	wait(b, want)
}

// TestUserName: a client with a user name works, as at an etcd without authentication.
func TestUserName(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{g.address}, Username: "root", Password: "x", Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		must(c.Put(t.Context(), "k", "v"))(t)
		if _, err := c.Authenticate(t.Context(), "root", "x"); !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
			t.Errorf("Authenticate: %v", err)
		}
		if r := must(c.AuthStatus(t.Context()))(t); r.Enabled || r.AuthRevision != 1 || r.Header.Revision == 0 {
			t.Errorf("%v", r)
		}
	}
}

// TestHalfClosedWatch: a client that sends no more requests keeps its watches.
func TestHalfClosedWatch(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c := open(t, g.address)
		last := must(c.Put(t.Context(), "k", ""))(t).Header.Revision
		w := must(pb.NewWatchClient(c.ActiveConnection()).Watch(t.Context()))(t)
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: last + 1},
		}}
		if err := errors.Join(w.Send(create), w.CloseSend()); err != nil {
			t.Fatal(err)
		}
		if r := must(w.Recv())(t); !r.Created {
			t.Fatalf("%v", r)
		}
		for range 3 {
			revision := must(c.Put(t.Context(), "k", ""))(t).Header.Revision
			if r := must(w.Recv())(t); len(r.Events) != 1 || r.Events[0].Kv.ModRevision != revision {
				t.Errorf("%v", r)
			}
		}
	}
}

// TestConditionsArePresent: a gateway whose copy is old answers no comparison from it, whatever else the transaction asks
// for.
func TestConditionsArePresent(t *testing.T) {
	a, b := pair(t)
	ca, cb := open(t, a.address), open(t, b.address)
	must(ca.Put(t.Context(), "k", "old"))(t)
	must(cb.Get(t.Context(), "k", clientv3.WithSerializable()))(t) // b has a copy
	b.chain.Close()                                                // its copy stays as it is; calls still reach the active gateway
	put := must(ca.Put(t.Context(), "k", "new"))(t)
	read := clientv3.OpGet("k", clientv3.WithSerializable())
	for name, ops := range map[string][2][]clientv3.Op{
		"no operation": {}, "a read": {{read}}, "two reads": {{read}, {read}}, "the other read": {nil, {read}},
	} {
		r := must(cb.Txn(t.Context()).If(clientv3.Compare(clientv3.Value("k"), "=", "new")).Then(ops[0]...).
			Else(ops[1]...).Commit())(t)
		if !r.Succeeded || r.Header.Revision != put.Header.Revision {
			t.Errorf("%s: succeeded: %v, at revision %d; the value was written at %d", name, r.Succeeded, r.Header.Revision,
				put.Header.Revision)
		}
	}
	if r := must(cb.Txn(t.Context()).Commit())(t); r.Header.Revision != put.Header.Revision {
		t.Errorf("an empty transaction is answered at revision %d, and a write had %d", r.Header.Revision, put.Header.Revision)
	}
}

// TestTermNeverFalls: all gateways answer with the term of the keyspace, those too that begin later.
func TestTermNeverFalls(t *testing.T) {
	a := start(t, startChain(t), Options{})
	a.waitActive(t)
	b := start(t, a.cluster, Options{})
	c := open(t, b.address)
	var last uint64
	check := func(where string, h *pb.ResponseHeader) {
		if h.RaftTerm < last {
			t.Errorf("%s: term %d follows %d", where, h.RaftTerm, last)
		}
		last = h.RaftTerm
	}
	both := func(where string, c *clientv3.Client) {
		check(where, must(c.Put(t.Context(), "k", ""))(t).Header)
		for _, options := range [][]clientv3.OpOption{nil, {clientv3.WithSerializable()}} {
			check(where, must(c.Get(t.Context(), "k", options...))(t).Header)
		}
		check(where, must(c.MemberList(t.Context()))(t).Header)
		check(where, (<-c.Watch(t.Context(), "k", clientv3.WithCreatedNotify())).Header)
	}
	both("another gateway", c)
	first := last
	a.kill()
	again(func() (*clientv3.PutResponse, error) { return c.Put(t.Context(), "k", "") })(t)
	both("the next active gateway", c)
	if last <= first {
		t.Errorf("term %d follows %d after a takeover", last, first)
	}
	late := start(t, b.cluster, Options{})
	both("a gateway that begins", open(t, late.address))
	both("the active gateway", c)
}

// TestEveryCommandCanBeExecuted: a transaction that etcd's store cannot finish is refused. If one is in the log, the
// gateways refuse it and go on, those too that start later.
func TestEveryCommandCanBeExecuted(t *testing.T) {
	a, b := pair(t)
	for _, g := range []*gateway{a, b} {
		c, ctx := open(t, g.address), t.Context()
		must(c.Put(ctx, "zz", "1"))(t)
		_, err := c.Txn(ctx).Then(clientv3.OpDelete("y", clientv3.WithFromKey()),
			clientv3.OpPut("zz", "2", clientv3.WithIgnoreLease())).Commit()
		if !errors.Is(err, rpctypes.ErrDuplicateKey) {
			t.Errorf("%v, want %v", err, rpctypes.ErrDuplicateKey)
		}
		if r := must(c.Get(ctx, "zz"))(t); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "1" {
			t.Errorf("the refused transaction had an effect: %v", r)
		}
	}
	c := open(t, a.address)
	before := must(c.Put(t.Context(), "k", "whole"))(t).Header.Revision
	first := before - 1
	l := a.where().lead
	w := make(waiter, 1)
	command := panics()
	l.proposals.push(&proposal{
		command: keyspace.CommandOf(command), encoded: must(proto.Marshal(command))(t), caller: w,
	})
	if r := <-w; !errors.Is(r.err, errUnexecutable) {
		t.Fatalf("the command was answered with %v, %v", r.Message(), r.err)
	}
	for _, g := range []*gateway{a, b, start(t, a.cluster, Options{})} {
		r := again(func() (*clientv3.GetResponse, error) { return open(t, g.address).Get(t.Context(), "k") })(t)
		if r.Header.Revision != before || string(r.Kvs[0].Value) != "whole" {
			t.Errorf("%v, want revision %d", r, before)
		}
		from := open(t, g.address).Watch(t.Context(), "zz", clientv3.WithRev(first))
		if r := <-from; len(r.Events) == 0 {
			t.Errorf("history was lost: %v", r)
		}
		before = again(func() (*clientv3.PutResponse, error) {
			return open(t, g.address).Put(t.Context(), "k", "whole")
		})(t).Header.Revision
	}
}

// panics is a transaction on which etcd's store panics after its first operation. The checks refuse it.
func panics() *pb.InternalRaftRequest {
	read := &pb.RangeRequest{Key: []byte("k"), SortOrder: pb.RangeRequest_ASCEND, SortTarget: 99}
	return &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k"), Value: []byte("half")}}},
		{Request: &pb.RequestOp_RequestRange{RequestRange: read}},
	}}}
}
