package security

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
)

// changing are the calls that change a cluster or a node. A call of Controllers may be a read: see [changes].
var changing = map[string]bool{
	agentv1.Agent_Configure_FullMethodName:             true,
	agentv1.Agent_Grant_FullMethodName:                 true,
	controllerv1.Controller_Operate_FullMethodName:     true,
	controllerv1.Controller_SetKeyspace_FullMethodName: true,
	controllerv1.Controller_GiveUpDisks_FullMethodName: true,
}

func changes(method string, request any) bool {
	if method == controllerv1.Controller_Controllers_FullMethodName {
		return adminOnly(request)
	}
	return changing[method]
}

// auditedBytes is how much of a request a line has at most.
const auditedBytes = 512

// audit returns an option by which a server logs each call that changes something: who made it, from where, with what
// request, and what came of it. Calls that are refused are logged too.
func audit(log *slog.Logger) grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo,
		next grpc.UnaryHandler,
	) (any, error) {
		answer, err := next(ctx, request)
		if changes(info.FullMethod, request) {
			outcome := status.Convert(err)
			log.Info("audit", "call", info.FullMethod, "by", caller(ctx), "role", string(RoleOf(ctx)), "from", address(ctx),
				"request", audited(request), "outcome", outcome.Code().String(), "error", outcome.Message())
		}
		return answer, err
	})
}

// caller is the name in the caller's certificate.
func caller(ctx context.Context) string {
	cert := peerCertificate(ctx)
	if cert == nil {
		return "no certificate"
	}
	return cert.Subject.CommonName
}

func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return p.Addr.String()
}

// audited is a request as text, without secrets and cut off.
func audited(request any) string {
	message, ok := request.(proto.Message)
	if !ok {
		return ""
	}
	if set, ok := message.(*controllerv1.SetKeyspaceRequest); ok && set.GetKeyspace() != nil {
		set = proto.CloneOf(set)
		set.Keyspace.Secret = nil
		message = set
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return err.Error()
	}
	if len(text) > auditedBytes {
		return string(text[:auditedBytes]) + "..."
	}
	return string(text)
}
