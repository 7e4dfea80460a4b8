package memory

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// authServer serves users, roles and tokens.
type authServer struct {
	pb.UnimplementedAuthServer
	g *Gateway
}

// errNoSecret: gateways of such a keyspace could not tell a gateway from a client.
var errNoSecret = status.Error(codes.FailedPrecondition, "netcraq: this keyspace was made by a version without "+
	"authentication, so its gateways do not know each other: name another one with --keyspace")

// AuthEnable implements etcd's API.
func (s *authServer) AuthEnable(ctx context.Context, q *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	if len(s.g.sharedSecret()) == 0 {
		return nil, errNoSecret
	}
	return execute[*pb.AuthEnableResponse](ctx, s.g, &pb.InternalRaftRequest{AuthEnable: q})
}

// AuthDisable implements etcd's API.
func (s *authServer) AuthDisable(ctx context.Context, q *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	return execute[*pb.AuthDisableResponse](ctx, s.g, &pb.InternalRaftRequest{AuthDisable: q})
}

// Authenticate implements etcd's API. A password is checked with a copy that has all that was acknowledged before. A
// token that is not signed is given by a command, so that all gateways know it.
func (s *authServer) Authenticate(ctx context.Context, q *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	ctx = unnamed(ctx) // the client may have an old token
	for {
		var checked uint64
		a, err := read(ctx, s.g, q, false, anybody, func(space *keyspace.Keyspace) (a *pb.AuthenticateResponse, err error) {
			if checked, err = space.Auth().CheckPassword(q.Name, q.Password); err != nil || !s.g.o.Tokens.Signed() {
				return nil, err
			}
			if a, err = space.Auth().Authenticate(ctx, q.Name, ""); err == nil {
				space.Head(a)
			}
			return a, err
		}, atAuth(pb.AuthClient.Authenticate))
		if a == nil && err == nil {
			a, err = s.give(ctx, q.Name, checked)
		}
		if !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthOldRevision) { // else the password may be another one since
			return complete(s.g, a, err)
		}
	}
}

// give gives a user a token, unless users were changed after a revision.
func (s *authServer) give(ctx context.Context, name string, checked uint64) (*pb.AuthenticateResponse, error) {
	prefix, err := s.g.current().Auth().GenTokenPrefix()
	if err != nil {
		return nil, err
	}
	return execute[*pb.AuthenticateResponse](ctx, s.g, &pb.InternalRaftRequest{
		Header:       &pb.RequestHeader{AuthRevision: checked},
		Authenticate: &pb.InternalAuthenticateRequest{Name: name, SimpleToken: prefix},
	})
}

// AuthStatus implements etcd's API.
func (s *authServer) AuthStatus(ctx context.Context, q *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	a, err := read(ctx, s.g, q, false, anybody, func(space *keyspace.Keyspace) (*pb.AuthStatusResponse, error) {
		store := space.Auth()
		a := &pb.AuthStatusResponse{Enabled: store.IsAuthEnabled(), AuthRevision: store.Revision()}
		space.Head(a)
		return a, nil
	}, atAuth(pb.AuthClient.AuthStatus))
	return complete(s.g, a, err)
}

// hash makes the hash of a password, as the log has it.
func (s *authServer) hash(password string) (string, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), s.g.current().Auth().BcryptCost())
	return base64.StdEncoding.EncodeToString(hash), rpcError(err)
}

// UserAdd implements etcd's API.
func (s *authServer) UserAdd(ctx context.Context, q *pb.AuthUserAddRequest) (_ *pb.AuthUserAddResponse, err error) {
	if !q.GetOptions().GetNoPassword() {
		if q.HashedPassword, err = s.hash(q.Password); err != nil {
			return nil, err
		}
	}
	q.Password = ""
	return execute[*pb.AuthUserAddResponse](ctx, s.g, &pb.InternalRaftRequest{AuthUserAdd: q})
}

// UserDelete implements etcd's API.
func (s *authServer) UserDelete(ctx context.Context, q *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	return execute[*pb.AuthUserDeleteResponse](ctx, s.g, &pb.InternalRaftRequest{AuthUserDelete: q})
}

// UserChangePassword implements etcd's API.
func (s *authServer) UserChangePassword(ctx context.Context, q *pb.AuthUserChangePasswordRequest) (
	_ *pb.AuthUserChangePasswordResponse, err error) {
	if q.Password != "" {
		if q.HashedPassword, err = s.hash(q.Password); err != nil {
			return nil, err
		}
		q.Password = ""
	}
	return execute[*pb.AuthUserChangePasswordResponse](ctx, s.g, &pb.InternalRaftRequest{AuthUserChangePassword: q})
}

// UserGrantRole implements etcd's API.
func (s *authServer) UserGrantRole(ctx context.Context, q *pb.AuthUserGrantRoleRequest) (
	*pb.AuthUserGrantRoleResponse, error) {
	return execute[*pb.AuthUserGrantRoleResponse](ctx, s.g, &pb.InternalRaftRequest{AuthUserGrantRole: q})
}

// UserRevokeRole implements etcd's API.
func (s *authServer) UserRevokeRole(ctx context.Context, q *pb.AuthUserRevokeRoleRequest) (
	*pb.AuthUserRevokeRoleResponse, error) {
	return execute[*pb.AuthUserRevokeRoleResponse](ctx, s.g, &pb.InternalRaftRequest{AuthUserRevokeRole: q})
}

// RoleAdd implements etcd's API.
func (s *authServer) RoleAdd(ctx context.Context, q *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	return execute[*pb.AuthRoleAddResponse](ctx, s.g, &pb.InternalRaftRequest{AuthRoleAdd: q})
}

// RoleDelete implements etcd's API.
func (s *authServer) RoleDelete(ctx context.Context, q *pb.AuthRoleDeleteRequest) (*pb.AuthRoleDeleteResponse, error) {
	return execute[*pb.AuthRoleDeleteResponse](ctx, s.g, &pb.InternalRaftRequest{AuthRoleDelete: q})
}

// RoleGrantPermission implements etcd's API.
func (s *authServer) RoleGrantPermission(ctx context.Context, q *pb.AuthRoleGrantPermissionRequest) (
	*pb.AuthRoleGrantPermissionResponse, error) {
	return execute[*pb.AuthRoleGrantPermissionResponse](ctx, s.g, &pb.InternalRaftRequest{AuthRoleGrantPermission: q})
}

// RoleRevokePermission implements etcd's API.
func (s *authServer) RoleRevokePermission(ctx context.Context, q *pb.AuthRoleRevokePermissionRequest) (
	*pb.AuthRoleRevokePermissionResponse, error) {
	return execute[*pb.AuthRoleRevokePermissionResponse](ctx, s.g, &pb.InternalRaftRequest{AuthRoleRevokePermission: q})
}

// UserGet implements etcd's API. A user may look at itself.
func (s *authServer) UserGet(ctx context.Context, q *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	return lookAtUsers(ctx, s.g, q, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		if err := administrator(space, user); err != nil && q.Name != user.Username {
			return err
		}
		return nil
	}, auth.AuthStore.UserGet, pb.AuthClient.UserGet)
}

// RoleGet implements etcd's API. A user may look at its roles.
func (s *authServer) RoleGet(ctx context.Context, q *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	return lookAtUsers(ctx, s.g, q, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		err := administrator(space, user)
		if err == nil {
			return nil
		}
		own, unknown := space.Auth().UserGet(&pb.AuthUserGetRequest{Name: user.Username})
		if unknown == nil && slices.Contains(own.Roles, q.Role) {
			return nil
		}
		return err
	}, auth.AuthStore.RoleGet, pb.AuthClient.RoleGet)
}

// UserList implements etcd's API.
func (s *authServer) UserList(ctx context.Context, q *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	return lookAtUsers(ctx, s.g, q, administrator, auth.AuthStore.UserList, pb.AuthClient.UserList)
}

// RoleList implements etcd's API.
func (s *authServer) RoleList(ctx context.Context, q *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	return lookAtUsers(ctx, s.g, q, administrator, auth.AuthStore.RoleList, pb.AuthClient.RoleList)
}

// lookAtUsers answers a question about users, from a copy that has all that was acknowledged before.
func lookAtUsers[Q any, A interface {
	proto.Message
	headed
}](ctx context.Context, g *Gateway, q Q, check permission,
	look func(auth.AuthStore, Q) (A, error), remote authMethod[Q, A]) (A, error) {
	a, err := read(ctx, g, q, false, check, func(space *keyspace.Keyspace) (A, error) {
		a, err := look(space.Auth(), q)
		if err == nil {
			space.Head(a)
		}
		return a, err
	}, atAuth(remote))
	return complete(g, a, err)
}

// authMethod is a method of the service of users at another gateway.
type authMethod[Q, A any] func(pb.AuthClient, context.Context, Q, ...grpc.CallOption) (A, error)

// atAuth calls the method over a connection.
func atAuth[Q, A any](method authMethod[Q, A]) func(*grpc.ClientConn) func(context.Context, Q, ...grpc.CallOption) (
	A, error) {
	return func(c *grpc.ClientConn) func(context.Context, Q, ...grpc.CallOption) (A, error) {
		return func(ctx context.Context, q Q, o ...grpc.CallOption) (A, error) {
			return method(pb.NewAuthClient(c), ctx, q, o...)
		}
	}
}
