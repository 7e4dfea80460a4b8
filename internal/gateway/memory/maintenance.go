package memory

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// maintenanceServer serves the state of this gateway.
type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	g *Gateway
}

// Status implements etcd's API.
func (s *maintenanceServer) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	if err := s.g.admit(ctx, s.g.current(), someUser); err != nil {
		return nil, err
	}
	a := &pb.StatusResponse{Header: new(pb.ResponseHeader), Version: version.Version, StorageVersion: version.Version}
	a.DbSize = s.g.current().Bytes()
	a.DbSizeInUse = a.DbSize
	a.DbSizeQuota = s.g.o.QuotaBytes
	s.g.fill(a.Header)
	a.RaftTerm = a.Header.RaftTerm
	if to := s.g.where(); to.lead == nil && to.conn == nil {
		a.Errors = append(a.Errors, etcderrors.ErrNoLeader.Error())
	}
	for _, alarm := range s.g.current().Alarms(pb.AlarmType_NONE) {
		a.Errors = append(a.Errors, alarm.String())
	}
	a.Leader = s.g.leading()
	return a, nil
}

// leading is the number of the active gateway, as far as known.
func (g *Gateway) leading() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lead != nil {
		return g.self.ID
	}
	return g.leader
}

// Alarm implements etcd's API.
func (s *maintenanceServer) Alarm(ctx context.Context, q *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if q.Action != pb.AlarmRequest_GET {
		return execute[*pb.AlarmResponse](ctx, s.g, &pb.InternalRaftRequest{Alarm: q})
	}
	a, err := read(ctx, s.g, q, false, someUser, func(space *keyspace.Keyspace) (*pb.AlarmResponse, error) {
		a := &pb.AlarmResponse{Alarms: space.Alarms(q.Alarm)}
		space.Head(a)
		return a, nil
	}, func(c *grpc.ClientConn) func(context.Context, *pb.AlarmRequest, ...grpc.CallOption) (*pb.AlarmResponse, error) {
		return pb.NewMaintenanceClient(c).Alarm
	})
	return complete(s.g, a, err)
}

// Defragment implements etcd's API: memory that is free is used again by itself.
func (s *maintenanceServer) Defragment(ctx context.Context, _ *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	if err := s.g.admit(ctx, s.g.current(), administrator); err != nil {
		return nil, err
	}
	return new(pb.DefragmentResponse), nil
}

// HashKV implements etcd's API. Gateways with the same history have the same hash.
func (s *maintenanceServer) HashKV(ctx context.Context, q *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	if err := s.g.known(ctx); err != nil {
		return nil, err
	}
	space, done, err := s.g.present()
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.g.admit(ctx, space, administrator); err != nil {
		return nil, err
	}
	h, revision, err := space.Store().HashStorage().HashByRev(q.Revision)
	a := &pb.HashKVResponse{
		Header: &pb.ResponseHeader{Revision: revision}, Hash: h.Hash, CompactRevision: h.CompactRevision, HashRevision: h.Revision,
	}
	return complete(s.g, a, rpcError(err))
}

// healthServer says whether calls find an active gateway.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	g *Gateway
}

// Check implements gRPC's health service.
func (s *healthServer) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (
	*grpc_health_v1.HealthCheckResponse, error) {
	status := grpc_health_v1.HealthCheckResponse_SERVING
	if s.g.healthy(ctx) != nil {
		status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: status}, nil
}

// healthy makes a linearizable read.
func (g *Gateway) healthy(ctx context.Context) error {
	_, err := (&kvServer{g: g}).Range(itself(ctx), &pb.RangeRequest{Key: []byte("a"), CountOnly: true})
	return err
}

// answers makes a linearizable read, and looks for the disks that writes need. If one of these fails, the error says
// what the keyspace waits for, as far as it is known.
func (g *Gateway) answers(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := g.healthy(reading)
	if g.disk == nil {
		return err
	}
	asking, stop := context.WithTimeout(ctx, healthTimeout)
	defer stop()
	if err != nil {
		return fmt.Errorf("%w: %w", err, g.disk.Reason(asking))
	}
	return g.disk.Majority(asking)
}
