package member

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// methods calls methods of each kind, and returns the newest revision in the answer.
var methods = map[string]func(ctx context.Context, m *etcdtest.Member) (int64, error){
	"put": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Put(ctx, "k", "v")
		return (*pb.PutResponse)(r).GetHeader().GetRevision(), err
	},
	"delete": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Delete(ctx, "k")
		return (*pb.DeleteRangeResponse)(r).GetHeader().GetRevision(), err
	},
	"txn": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Txn(ctx).Then(clientv3.OpPut("t", "v")).Commit()
		return (*pb.TxnResponse)(r).GetHeader().GetRevision(), err
	},
	"comparing txn": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Txn(ctx).If(clientv3.Compare(clientv3.Version("k"), ">", 0)).Then(clientv3.OpGet("k")).Commit()
		return (*pb.TxnResponse)(r).GetHeader().GetRevision(), err
	},
	"serializable": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Get(ctx, "k", clientv3.WithSerializable())
		return (*pb.RangeResponse)(r).GetHeader().GetRevision(), err
	},
	"serializable stream": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		s, err := pb.NewKVClient(m.Client.ActiveConnection()).RangeStream(ctx, &pb.RangeRequest{Key: []byte("k"), Serializable: true})
		if err != nil {
			return 0, err
		}
		r, err := s.Recv()
		return r.GetRangeResponse().GetHeader().GetRevision(), err
	},
	"compact": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Compact(ctx, 1)
		if errors.Is(err, rpctypes.ErrCompacted) {
			err = nil
		}
		return (*pb.CompactionResponse)(r).GetHeader().GetRevision(), err
	},
	"watch": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		w := clientv3.NewWatcher(m.Client)
		defer w.Close()
		select {
		case r := <-w.Watch(ctx, "k", clientv3.WithRev(2)):
			if len(r.Events) == 0 {
				return 0, errors.Join(errors.New("no event"), r.Err())
			}
			return max(r.Header.GetRevision(), r.Events[0].Kv.ModRevision), r.Err()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	},
	"created watch": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		w := clientv3.NewWatcher(m.Client)
		defer w.Close()
		select {
		case r := <-w.Watch(ctx, "none", clientv3.WithCreatedNotify()):
			if !r.Created {
				return 0, errors.Join(errors.New("not created"), r.Err())
			}
			return r.Header.GetRevision(), r.Err()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	},
	"lease": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := pb.NewLeaseClient(m.Client.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
		return r.GetHeader().GetRevision(), err
	},
	"keep alive": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		s, err := pb.NewLeaseClient(m.Client.ActiveConnection()).LeaseKeepAlive(ctx)
		if err != nil {
			return 0, err
		}
		if err := s.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil {
			return 0, err
		}
		r, err := s.Recv()
		return r.GetHeader().GetRevision(), err
	},
	"unknown lease": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		_, err := m.Client.Revoke(ctx, 12345)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return 0, errors.Join(err, ctx.Err())
		}
		return m.Server.KV().Rev(), nil
	},
	"hash": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.HashKV(ctx, m.ClientURL(), 0)
		return (*pb.HashKVResponse)(r).GetHeader().GetRevision(), err
	},
	"status": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Status(ctx, m.ClientURL())
		return (*pb.StatusResponse)(r).GetHeader().GetRevision(), err
	},
	"snapshot": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := m.Client.Snapshot(ctx)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		_, err = io.ReadFull(r, make([]byte, 1))
		return m.Server.KV().Rev(), err
	},
	"lock": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := v3lockpb.NewLockClient(m.Client.ActiveConnection()).Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")})
		if err == nil {
			_, err = v3lockpb.NewLockClient(m.Client.ActiveConnection()).Unlock(ctx, &v3lockpb.UnlockRequest{Key: r.Key})
		}
		return r.GetHeader().GetRevision(), err
	},
	"observe": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		s, err := v3electionpb.NewElectionClient(m.Client.ActiveConnection()).Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte("elected")})
		if err != nil {
			return 0, err
		}
		r, err := s.Recv()
		return max(r.GetHeader().GetRevision(), r.GetKv().GetModRevision()), err
	},
	"JSON": func(ctx context.Context, m *etcdtest.Member) (int64, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.ClientURL()+"/v3/kv/put", strings.NewReader(`{"key":"ag==","value":"ag=="}`))
		if err != nil {
			return 0, err
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if a.StatusCode != http.StatusOK {
			err = errors.Join(err, errors.New(string(text)))
		}
		return m.Server.KV().Rev(), err
	},
}

// TestEverythingIsRevealed: no answer has a revision that may not be shown, and none comes before it may be shown.
func TestEverythingIsRevealed(t *testing.T) {
	t.Run("front's server", func(t *testing.T) { everythingIsRevealed(t, (*Front).Configure) })
	t.Run("etcd's server", func(t *testing.T) { everythingIsRevealed(t, (*Front).intercept) })
}

func everythingIsRevealed(t *testing.T, configure func(*Front, *embed.Config)) {
	c, _, register := startWith(t, configure)
	m := c.Members[1]
	put(t, c.Members[0], "k", "v")
	if _, err := c.Members[0].Client.Lease.Grant(t.Context(), 600); err != nil {
		t.Fatal(err)
	}
	election := v3electionpb.NewElectionClient(c.Members[0].Client.ActiveConnection())
	if _, err := election.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("elected")}); err != nil {
		t.Fatal(err)
	}
	for name, call := range methods {
		register.mu.Lock()
		register.asked = 0
		register.mu.Unlock()
		revision, err := call(t.Context(), m)
		register.mu.Lock()
		asked := register.asked
		register.mu.Unlock()
		if err != nil || revision == 0 && name != "compact" || asked == 0 || revision > asked {
			t.Errorf("%s: revision %d, revealed up to %d, %v", name, revision, asked, err)
		}
		blocked(t, register, name, m, call)
	}
}

// blocked checks that a call does not return before the register lets it.
func blocked(t *testing.T, register *shared, name string, m *etcdtest.Member, call func(context.Context, *etcdtest.Member) (int64, error)) {
	t.Helper()
	wants := make(chan struct{})
	register.mu.Lock()
	register.block, register.wants = make(chan struct{}), wants
	register.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := call(ctx, m)
		done <- err
	}()
	select {
	case <-wants:
	case err := <-done:
		t.Errorf("%s: nobody was asked: %v", name, err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Errorf("%s: answered though it may not be shown", name)
	}
	register.mu.Lock()
	defer register.mu.Unlock()
	close(register.block)
	register.block, register.wants = nil, nil
}

// mark puts a record into the member's attributes in etcd's log.
func mark(t *testing.T, m *etcdtest.Member, record string) {
	t.Helper()
	self := m.Server.Cluster().Member(m.Server.MemberID())
	entry, err := proto.Marshal(&pb.InternalRaftRequest{
		Header: &pb.RequestHeader{ID: m.Server.NextRequestID()},
		ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{
			Member_ID:        uint64(self.ID),
			MemberAttributes: &membershippb.Attributes{Name: self.Name, ClientUrls: []string{self.ClientURLs[0] + recordMark + record}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for index := m.Server.AppliedIndex(); ; {
		message := &raftpb.Message{
			Type: raftpb.MsgProp.Enum(), From: new(uint64(self.ID)), To: new(uint64(self.ID)), Entries: []*raftpb.Entry{{Data: entry}},
		}
		if err := m.Server.Process(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		index = max(index, m.Server.AppliedIndex()) + 1
		<-m.Server.ApplyWait(index)
		if strings.Contains(m.Server.Cluster().Member(self.ID).ClientURLs[0], record) {
			return
		}
	}
}

// TestMemberListHasNoRecords, while the members' own attributes have.
func TestMemberListHasNoRecords(t *testing.T) {
	c, _, register := start(t)
	before, err := c.Members[0].Client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	revision := put(t, c.Members[0], "k", "v")
	for _, m := range c.Members {
		mark(t, m, "1.something")
	}
	after, err := c.Members[0].Client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Members) != 3 || !slices.EqualFunc(before.Members, after.Members, func(a, b *pb.Member) bool { return proto.Equal(a, b) }) {
		t.Errorf("%v, before %v", after.Members, before.Members)
	}
	if next := put(t, c.Members[0], "k", "v"); next != revision+1 {
		t.Errorf("records took %d revisions", next-revision-1)
	}
	// A client that follows the list of a member reaches the others, also if the list has records.
	plain, err := clientv3.New(clientv3.Config{Endpoints: c.Members[0].Server.Cluster().ClientURLs()})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if !strings.Contains(plain.Endpoints()[0], recordMark) {
		t.Errorf("no records: %q", plain.Endpoints())
	}
	if _, err := plain.Get(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	_ = register
}

// TestMembersChangeWhilePaused, and learners refuse reads as in etcd.
func TestMembersChangeWhilePaused(t *testing.T) {
	c, fronts, register := start(t)
	put(t, c.Members[0], "k", "v")
	mark(t, c.Members[1], "1.something")
	next := c.Next()
	added, err := c.Members[0].Client.MemberAddAsLearner(t.Context(), []string{next.PeerURL()})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(added.Members, func(m *pb.Member) bool { return strings.Contains(strings.Join(m.ClientURLs, ""), "#") }) {
		t.Errorf("records: %v", added.Members)
	}
	front := NewFront()
	next.Config = front.Configure
	next.Begin()
	next.Await()
	front.Start(next.Server, of{register, next.Server})
	if _, err := next.Client.Get(t.Context(), "k"); !errors.Is(err, rpctypes.ErrGRPCNotSupportedForLearner) && rpctypes.ErrorDesc(err) != rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner) {
		t.Errorf("a learner answers: %v", err)
	}
	if _, err := c.Members[1].Client.MemberUpdate(t.Context(), added.Member.ID, added.Member.PeerURLs); err != nil {
		t.Error(err)
	}
	if _, err := c.Members[2].Client.MemberRemove(t.Context(), added.Member.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Members[2].Client.MemberPromote(t.Context(), 5); err == nil {
		t.Error("an unknown member was promoted")
	}
	want := slices.Repeat([]string{"pause", "resume"}, 4)
	if !slices.Equal(register.changes, want) {
		t.Errorf("%q", register.changes)
	}
	_ = fronts
}

// TestAuthentication: a change of permissions that was answered holds for fast reads at other members, and only
// administrators can end fast reads.
func TestAuthentication(t *testing.T) {
	c, fronts, register := start(t)
	root, ctx := c.Members[0].Client, t.Context()
	put(t, c.Members[0], "k", "v")
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(root.UserAdd(ctx, "root", "secret"))
	must(root.RoleAdd(ctx, "root"))
	must(root.UserGrantRole(ctx, "root", "root"))
	must(root.RoleAdd(ctx, "reader"))
	must(root.UserAdd(ctx, "reader", "secret"))
	must(root.UserGrantRole(ctx, "reader", "reader"))
	must(root.AuthEnable(ctx))
	as := func(name string, m *etcdtest.Member) *clientv3.Client {
		t.Helper()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL()}, Username: name, Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
	root = as("root", c.Members[0])
	for i := range 20 {
		m := c.Members[1+i%2]
		must(root.RoleGrantPermission(ctx, "reader", "k", "", clientv3.PermissionType(clientv3.PermRead)))
		reader := as("reader", m)
		must(reader.Get(ctx, "k"))
		must(root.RoleRevokePermission(ctx, "reader", "k", ""))
		if _, err := reader.Get(ctx, "k"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Fatalf("round %d: a reader without permission: %v", i, err)
		}
	}
	if fast := fronts[1].Fast() + fronts[2].Fast(); fast < 20 {
		t.Errorf("%d fast reads", fast)
	}
	reader := as("reader", c.Members[1])
	if _, err := reader.MemberRemove(ctx, 5); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a reader removes members: %v", err)
	}
	if _, err := c.Members[1].Client.MemberRemove(ctx, 5); err == nil {
		t.Error("somebody without a name removes members")
	}
	if register.paused != 0 {
		t.Error("fast reads were ended by somebody who may not")
	}
	if _, err := root.MemberRemove(ctx, 5); !errors.Is(err, rpctypes.ErrMemberNotFound) || register.paused != 1 {
		t.Errorf("%v, paused %d times", err, register.paused)
	}
}
