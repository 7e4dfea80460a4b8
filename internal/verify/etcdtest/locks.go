package etcdtest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// locks are clients of etcd's services for locks and elections.
type locks struct {
	v3lockpb.LockClient
	v3electionpb.ElectionClient
}

func locksAt(t *testing.T, address string) *locks {
	t.Helper()
	c := connect(t, address).ActiveConnection()
	if _, err := pb.NewLeaseClient(c).LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 0xb1, TTL: 60}); err != nil {
		t.Fatal(err)
	}
	return &locks{v3lockpb.NewLockClient(c), v3electionpb.NewElectionClient(c)}
}

// LocksAlike compares the errors of locks and elections at an address with those of an etcd.
func LocksAlike(t *testing.T, address, etcd string) {
	t.Helper()
	got, want := locksAt(t, address), locksAt(t, etcd)
	leader := &v3electionpb.LeaderKey{Name: []byte("seat"), Key: []byte("seat/b1"), Rev: 1, Lease: 0xb1}
	for name, call := range map[string]func(context.Context, *locks) (any, error){
		"lock": func(c context.Context, s *locks) (any, error) {
			return s.Lock(c, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 0xb1})
		},
		"lock, no lease": func(c context.Context, s *locks) (any, error) {
			return s.Lock(c, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 9})
		},
		"unlock nothing": func(c context.Context, s *locks) (any, error) {
			return s.Unlock(c, &v3lockpb.UnlockRequest{Key: []byte("none")})
		},
		"unlock no key": func(c context.Context, s *locks) (any, error) { return s.Unlock(c, &v3lockpb.UnlockRequest{}) },
		"proclaim nothing": func(c context.Context, s *locks) (any, error) {
			return s.Proclaim(c, &v3electionpb.ProclaimRequest{})
		},
		"proclaim, lost": func(c context.Context, s *locks) (any, error) {
			return s.Proclaim(c, &v3electionpb.ProclaimRequest{Leader: leader})
		},
		"resign nothing": func(c context.Context, s *locks) (any, error) {
			return s.Resign(c, &v3electionpb.ResignRequest{})
		},
		"resign, lost": func(c context.Context, s *locks) (any, error) {
			return s.Resign(c, &v3electionpb.ResignRequest{Leader: leader})
		},
		"no leader": func(c context.Context, s *locks) (any, error) {
			return s.Leader(c, &v3electionpb.LeaderRequest{Name: []byte("x")})
		},
		"a large value": func(c context.Context, s *locks) (any, error) {
			value := bytes.Repeat([]byte{'x'}, 1700<<10)
			return s.Campaign(c, &v3electionpb.CampaignRequest{Name: []byte("seat"), Lease: 0xb1, Value: value})
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, expected := call(t.Context(), want)
			_, err := call(t.Context(), got)
			if status.Code(err) != status.Code(expected) || fmt.Sprint(err) != fmt.Sprint(expected) {
				t.Errorf("the gateway answers %v, and etcd %v", err, expected)
			}
			leading := metadata.AppendToOutgoingContext(t.Context(), rpctypes.MetadataRequireLeaderKey,
				rpctypes.MetadataHasLeader)
			if _, err = call(leading, got); fmt.Sprint(err) != fmt.Sprint(expected) {
				t.Errorf("with a leader: %v, and etcd %v", err, expected)
			}
		})
	}
}
