package member

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/rpc"
)

// behindWithin bounds how long a read waits until this member has applied the read point. After that it uses ReadIndex.
const behindWithin = 250 * time.Millisecond

// Front passes clients' calls to etcd's handlers. Its interceptors run inside etcd's own.
type Front struct {
	Counters
	ping     keepalive.ServerParameters // of clients' connections
	pings    keepalive.EnforcementPolicy
	once     sync.Once
	stopped  chan struct{} // closed when no more connections are served
	running  chan *embed.Etcd
	started  chan struct{} // closed when the fields below are valid
	server   *etcdserver.EtcdServer
	register Register
	rpc      *rpc.Server
}

// NewFront makes a front. Calls wait until [Front.Start].
func NewFront() *Front {
	return &Front{started: make(chan struct{}), stopped: make(chan struct{}), running: make(chan *embed.Etcd, 1)}
}

// Start lets calls pass.
func (f *Front) Start(server *etcdserver.EtcdServer, register Register) {
	f.server, f.register = server, register
	f.rpc = rpc.New(server, rpc.Options{Unary: f.unary, Stream: f.stream, Ahead: f.ahead, Ping: f.ping, Pings: f.pings})
	close(f.started)
}

// wait returns when the front has started.
func (f *Front) wait(ctx context.Context) error {
	select {
	case <-f.started:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (f *Front) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	switch r := request.(type) {
	case *pb.RangeRequest:
		if !r.Serializable {
			return f.readRange(ctx, r, handle)
		}
	case *pb.TxnRequest:
		if needsReadIndex(r) {
			return f.readTxn(ctx, r, handle)
		}
	case *pb.MemberAddRequest, *pb.MemberRemoveRequest, *pb.MemberUpdateRequest, *pb.MemberPromoteRequest:
		return f.changeMembers(ctx, request, handle)
	}
	return f.show(ctx, info.FullMethod, request, handle)
}

// Applied returns a point that the server has applied, with everything that an answer of the server can have shown. The server
// answers a request before it counts the request's entry as applied, so the index is that of the next entry if there is one.
func Applied(server *etcdserver.EtcdServer) core.Point {
	p := core.Point{Revision: server.KV().Rev(), Index: server.AppliedIndex()}
	if server.CommittedIndex() > p.Index {
		p.Index++
	}
	return p
}

// answered is an answer with a header.
type answered interface{ GetHeader() *pb.ResponseHeader }

// show has etcd handle a call, and returns its answer when that may be shown. An error may show the newest revision too: that a
// lease has expired, for instance.
func (f *Front) show(ctx context.Context, method string, request any, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	var p core.Point
	switch a, is := answer.(answered); {
	case err != nil:
		p.Revision = f.server.KV().Rev()
	case !is || a.GetHeader() == nil:
		return answer, nil
	default:
		p.Revision = a.GetHeader().Revision
		if list, is := answer.(*pb.MemberListResponse); is {
			stripAll(list.Members)
		}
	}
	if changesWithoutRevision(method) {
		p.Index = Applied(f.server).Index
	}
	if hidden := f.reveal(ctx, p); hidden != nil {
		return nil, hidden
	}
	return answer, err
}

// reveal waits until a point may be shown, and returns an error for the client.
func (f *Front) reveal(ctx context.Context, p core.Point) error {
	if p == (core.Point{}) {
		return nil
	}
	begin := time.Now()
	err := f.register.Reveal(ctx, p)
	f.waited.Add(int64(time.Since(begin)))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

// changesWithoutRevision reports whether a method can change what reads answer without a new revision.
func changesWithoutRevision(method string) bool {
	return strings.HasPrefix(method, "/etcdserverpb.Auth/") ||
		method == pb.KV_Compact_FullMethodName || method == pb.Maintenance_Alarm_FullMethodName
}

// changeMembers has etcd change its members while nobody reads through the chain: a member that does not take part would
// show revisions that readers do not learn of.
func (f *Front) changeMembers(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	if err := f.mayChangeMembers(ctx); err != nil {
		return nil, err
	}
	resume, err := f.register.Pause(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = status.FromContextError(ctx.Err()).Err()
		}
		return nil, err
	}
	defer resume()
	answer, err := handle(ctx, request)
	if list, is := answer.(interface{ GetMembers() []*pb.Member }); is && err == nil {
		stripAll(list.GetMembers())
	}
	return answer, err
}

// mayChangeMembers refuses a change of members that etcd would refuse, so that not everybody can end fast reads.
func (f *Front) mayChangeMembers(ctx context.Context) error {
	if !f.server.AuthStore().IsAuthEnabled() {
		return nil
	}
	who, err := f.server.AuthInfoFromCtx(ctx)
	if err == nil {
		err = f.server.AuthStore().IsAdminPermitted(who)
	}
	for _, known := range []struct{ server, client error }{
		{auth.ErrUserEmpty, rpctypes.ErrGRPCUserEmpty},
		{auth.ErrUserNotFound, rpctypes.ErrGRPCUserNotFound},
		{auth.ErrPermissionDenied, rpctypes.ErrGRPCPermissionDenied},
		{auth.ErrInvalidAuthToken, rpctypes.ErrGRPCInvalidAuthToken},
		{auth.ErrAuthOldRevision, rpctypes.ErrGRPCAuthOldRevision},
	} {
		if errors.Is(err, known.server) {
			return known.client
		}
	}
	return nil // etcd decides
}
