package memory

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// headed is a response of etcd's API.
type headed interface{ GetHeader() *pb.ResponseHeader }

// complete fills in the header of a response with the numbers of this gateway, unless another one has answered.
func complete[A headed](g *Gateway, a A, err error) (A, error) {
	if errors.Is(err, errNotActive) {
		err = rpctypes.ErrGRPCNotLeader
	}
	switch h := a.GetHeader(); {
	case err != nil:
	case h.GetMemberId() == 0:
		g.fill(h)
	default:
		g.sawTerm(h.GetRaftTerm())
	}
	return a, err
}

// fill completes a header.
func (g *Gateway) fill(h *pb.ResponseHeader) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.ClusterId, h.MemberId, h.RaftTerm = g.cluster, g.self.ID, g.term
	if h.Revision == 0 {
		h.Revision = g.space.Revision()
	}
}

// rpcErrors are etcd's statuses of its store's errors.
var rpcErrors = map[error]error{
	mvcc.ErrCompacted:         rpctypes.ErrGRPCCompacted,
	mvcc.ErrFutureRev:         rpctypes.ErrGRPCFutureRev,
	lease.ErrLeaseNotFound:    rpctypes.ErrGRPCLeaseNotFound,
	lease.ErrLeaseExists:      rpctypes.ErrGRPCLeaseExist,
	lease.ErrLeaseTTLTooLarge: rpctypes.ErrGRPCLeaseTTLTooLarge,
	etcderrors.ErrKeyNotFound: rpctypes.ErrGRPCKeyNotFound,
	etcderrors.ErrNoSpace:     rpctypes.ErrGRPCNoSpace,
	lease.ErrNotPrimary:       errNotActive,

	auth.ErrRootUserNotExist:     rpctypes.ErrGRPCRootUserNotExist,
	auth.ErrRootRoleNotExist:     rpctypes.ErrGRPCRootRoleNotExist,
	auth.ErrUserAlreadyExist:     rpctypes.ErrGRPCUserAlreadyExist,
	auth.ErrUserEmpty:            rpctypes.ErrGRPCUserEmpty,
	auth.ErrUserNotFound:         rpctypes.ErrGRPCUserNotFound,
	auth.ErrRoleAlreadyExist:     rpctypes.ErrGRPCRoleAlreadyExist,
	auth.ErrRoleNotFound:         rpctypes.ErrGRPCRoleNotFound,
	auth.ErrRoleEmpty:            rpctypes.ErrGRPCRoleEmpty,
	auth.ErrAuthFailed:           rpctypes.ErrGRPCAuthFailed,
	auth.ErrPermissionNotGiven:   rpctypes.ErrGRPCPermissionNotGiven,
	auth.ErrPermissionDenied:     rpctypes.ErrGRPCPermissionDenied,
	auth.ErrRoleNotGranted:       rpctypes.ErrGRPCRoleNotGranted,
	auth.ErrPermissionNotGranted: rpctypes.ErrGRPCPermissionNotGranted,
	auth.ErrAuthNotEnabled:       rpctypes.ErrGRPCAuthNotEnabled,
	auth.ErrInvalidAuthToken:     rpctypes.ErrGRPCInvalidAuthToken,
	auth.ErrInvalidAuthMgmt:      rpctypes.ErrGRPCInvalidAuthMgmt,
	auth.ErrAuthOldRevision:      rpctypes.ErrGRPCAuthOldRevision,
}

// rpcError gives an error its status.
func rpcError(err error) error {
	if err == nil || errors.Is(err, errNotActive) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for known, is := range rpcErrors {
		if errors.Is(err, known) {
			return is
		}
	}
	return status.Error(codes.Unknown, err.Error())
}
