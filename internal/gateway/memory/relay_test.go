package memory

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// TestRelayedCommandsAreChecked: any client can open a relay, and etcd's store would panic on commands that fail etcd's
// checks. What no handler proposes is refused, and what it proposes is executed.
func TestRelayedCommandsAreChecked(t *testing.T) {
	a := start(t, startChain(t), Options{})
	a.waitActive(t)
	put := &pb.PutRequest{Key: []byte("k"), Value: []byte("v")}
	twice := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}}
	kinds := make(map[uint64]byte)
	s := newSession(true)
	for id, c := range []struct {
		command *pb.InternalRaftRequest
		kind    byte
	}{
		{&pb.InternalRaftRequest{}, itemFailed},
		{&pb.InternalRaftRequest{Put: &pb.PutRequest{}}, itemFailed},
		{&pb.InternalRaftRequest{DeleteRange: &pb.DeleteRangeRequest{}}, itemFailed},
		{&pb.InternalRaftRequest{Alarm: &pb.AlarmRequest{}}, itemFailed}, // a read
		{&pb.InternalRaftRequest{Put: put, DeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")}}, itemFailed},
		{&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{twice, twice}}}, itemFailed},
		{&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{read}}}, itemFailed},
		{&pb.InternalRaftRequest{Put: &pb.PutRequest{Key: make([]byte, a.o.MaxRequestBytes)}}, itemFailed},
		{&pb.InternalRaftRequest{Compaction: &pb.CompactionRequest{Revision: 1 << 62}}, itemFailed}, // by the store
		{&pb.InternalRaftRequest{Put: put}, itemAnswer},
		{&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{twice, read}}}, itemAnswer},
		{&pb.InternalRaftRequest{LeaseGrant: &pb.LeaseGrantRequest{ID: 1, TTL: 60}}, itemAnswer},
		{&pb.InternalRaftRequest{LeaseRevoke: &pb.LeaseRevokeRequest{ID: 1}}, itemAnswer},
		{&pb.InternalRaftRequest{DeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")}}, itemAnswer},
	} {
		kinds[uint64(id)] = c.kind
		body := must(proto.Marshal(c.command))(t)
		if err := s.execute(t.Context(), a.Gateway, item{uint64(id), itemCommand, body}); err != nil {
			t.Fatal(err)
		}
	}
	s.finish()
	for rest := s.out; len(rest) > 0; {
		var i item
		var err error
		if i, rest, err = next(rest); err != nil {
			t.Fatal(err)
		}
		if i.kind != kinds[i.id] {
			t.Errorf("command %d has a reply of kind %d, want %d: %q", i.id, i.kind, kinds[i.id], i.body)
		}
		delete(kinds, i.id)
	}
	if len(kinds) > 0 {
		t.Errorf("commands without a reply: %v", kinds)
	}
}

// TestFollowersForwardByTheRelay: a gateway that is not active sends every write by its relay.
func TestFollowersForwardByTheRelay(t *testing.T) {
	_, b := pair(t)
	c, ctx := open(t, b.address), t.Context()
	r := b.waitRelay(t)
	before := sentBy(r)
	must(c.Put(ctx, "k", "1"))(t)
	must(c.Delete(ctx, "k"))(t)
	revision := must(c.Put(ctx, "k", "2"))(t).Header.Revision
	must(c.Compact(ctx, revision))(t)
	lease := must(c.Grant(ctx, 60))(t)
	must(c.Revoke(ctx, lease.ID))(t)
	if n := sentBy(r) - before; n < 6 {
		t.Errorf("%d of 6 writes went by the relay", n)
	}
}

// waitRelay waits until the gateway can relay writes.
func (g *gateway) waitRelay(t *testing.T) (r *relay) {
	t.Helper()
	eventually(t, "a relay", func() bool {
		if r = g.where().relay; r == nil {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.open
	})
	return r
}

func sentBy(r *relay) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
