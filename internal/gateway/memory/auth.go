package memory

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// authServer answers as an etcd on which authentication was never enabled. Clients that have a user name go on without.
type authServer struct {
	pb.UnimplementedAuthServer
	g *Gateway
}

// Authenticate implements etcd's API.
func (s *authServer) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCAuthNotEnabled
}

// AuthStatus implements etcd's API.
func (s *authServer) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	a := &pb.AuthStatusResponse{Header: new(pb.ResponseHeader), AuthRevision: 1}
	s.g.fill(a.Header)
	return a, nil
}
