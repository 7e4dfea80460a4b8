package memory

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// maintenanceServer serves the state of this gateway.
type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	g *Gateway
}

// Status implements etcd's API. This gateway is the leader if it is active; the number of another one is not known.
func (s *maintenanceServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	space, done, err := s.g.present()
	if err != nil {
		return nil, err
	}
	defer done()
	a := &pb.StatusResponse{Header: new(pb.ResponseHeader), Version: version.Version, StorageVersion: version.Version}
	a.DbSize = space.Bytes()
	a.DbSizeInUse = a.DbSize
	a.DbSizeQuota = quotaBytes
	s.g.fill(a.Header)
	a.RaftTerm = a.Header.RaftTerm
	switch l, conn, _ := s.g.where(); {
	case l != nil:
		a.Leader = s.g.member
	case conn == nil:
		a.Errors = append(a.Errors, "no gateway is active")
	}
	return a, nil
}

// Alarm implements etcd's API: there are no alarms.
func (s *maintenanceServer) Alarm(context.Context, *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	a := &pb.AlarmResponse{Header: new(pb.ResponseHeader)}
	s.g.fill(a.Header)
	return a, nil
}

// clusterServer lists this gateway as the only member.
type clusterServer struct {
	pb.UnimplementedClusterServer
	g    *Gateway
	name string
	url  string
}

// MemberList implements etcd's API.
func (s *clusterServer) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	a := &pb.MemberListResponse{Header: new(pb.ResponseHeader)}
	s.g.fill(a.Header)
	a.Members = []*pb.Member{{ID: s.g.member, Name: s.name, ClientURLs: []string{s.url}}}
	return a, nil
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
	_, err := (&kvServer{g: g}).Range(ctx, &pb.RangeRequest{Key: []byte("a"), CountOnly: true})
	return err
}
