// Package rpc serves the gRPC services of an etcd server by [grpcserver], in the place of etcd's own gRPC server: the
// same handlers, within the same interceptors, at less CPU time for each call.
package rpc

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/member/core"
)

// Options are what the server has inside etcd's own interceptors, and etcd's flags for keepalives.
type Options struct {
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
	Ping   keepalive.ServerParameters
	Pings  keepalive.EnforcementPolicy
	// Ahead asks for the read point of a linearizable read of one key, before the call has a goroutine. It calls then
	// once. ok is false if the call has to wait.
	Ahead func(then func(p core.Point, ok bool))
}

// Server serves clients' connections.
type Server struct {
	calls    *grpcserver.Server
	handlers map[string]handler // by the path of a method
	services map[string]bool
	unary    grpc.UnaryServerInterceptor
	stream   grpc.StreamServerInterceptor
	kv       pb.KVServer
	ahead    func(then func(core.Point, bool))
	pings    time.Duration // the least time between two of a client
}

// handler answers one method. One of the two is set.
type handler struct {
	service any
	unary   *grpc.MethodDesc
	stream  *grpc.StreamDesc
	about   *grpc.StreamServerInfo
}

// New makes a server for clients of an etcd server that is ready. It ends with that server.
func New(s *etcdserver.EtcdServer, o Options) *Server {
	metrics := getServerMetrics(s.Cfg.Metrics, s.Cfg.Logger)
	r := &Server{
		handlers: make(map[string]handler), services: make(map[string]bool),
		unary: chainUnary(newLogUnaryInterceptor(s), metrics.UnaryServerInterceptor(), newUnaryInterceptor(s), o.Unary),
		ahead: o.Ahead, kv: v3rpc.NewQuotaKVServer(s), pings: o.Pings.MinTime,
		stream: chainStream(metrics.StreamServerInterceptor(), newStreamInterceptor(s), o.Stream),
	}
	client := v3client.New(s) // of the services that are clients themselves
	r.register(s, client)
	r.calls = grpcserver.New(grpcserver.Options{
		Codec: codec{}, Unary: func(method string) bool { return r.handlers[method].unary != nil },
		Begin: r.begin, Handle: r.handle, Waits: func(string) bool { return true },
		Memory:          grpcserver.NewMemory(math.MaxInt), // etcd has no bound
		MaxMessageBytes: int(s.Cfg.MaxRequestBytesWithOverhead()), MaxCalls: int(s.Cfg.MaxConcurrentStreams),
		PingEvery: o.Ping.Time, PingTimeout: o.Ping.Timeout,
	})
	go func() {
		<-s.StopNotify()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.Stop(ctx)
		_ = client.Close() // its error is that of its context
	}()
	return r
}

// register adds the services of etcd's own gRPC server: see v3rpc.Server and package embed.
func (r *Server) register(s *etcdserver.EtcdServer, client *clientv3.Client) {
	pb.RegisterKVServer(r, r.kv)
	pb.RegisterWatchServer(r, v3rpc.NewWatchServer(s))
	pb.RegisterLeaseServer(r, v3rpc.NewQuotaLeaseServer(s))
	pb.RegisterClusterServer(r, v3rpc.NewClusterServer(s))
	pb.RegisterAuthServer(r, v3rpc.NewAuthServer(s))
	healthy := health.NewServer()
	healthpb.RegisterHealthServer(r, healthy)
	pb.RegisterMaintenanceServer(r, newMaintenanceServer(s, newHealthNotifier(healthy, s)))
	v3electionpb.RegisterElectionServer(r, v3election.NewElectionServer(client))
	v3lockpb.RegisterLockServer(r, v3lock.NewLockServer(client))
}

// RegisterService implements [grpc.ServiceRegistrar].
func (r *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	r.services[desc.ServiceName] = true
	for i := range desc.Methods {
		path := "/" + desc.ServiceName + "/" + desc.Methods[i].MethodName
		r.handlers[path] = handler{service: service, unary: &desc.Methods[i]}
	}
	for i := range desc.Streams {
		d := &desc.Streams[i]
		path := "/" + desc.ServiceName + "/" + d.StreamName
		r.handlers[path] = handler{service: service, stream: d, about: &grpc.StreamServerInfo{
			FullMethod: path, IsClientStream: d.ClientStreams, IsServerStream: d.ServerStreams,
		}}
	}
}

// ServeConn serves a connection, on goroutines of its own.
func (r *Server) ServeConn(n net.Conn) {
	r.calls.ServeConn(n, func(c *grpcserver.Connection) {
		if _, secure := n.(*tls.Conn); !secure { // etcd's server for TLS, of net/http, has no limit
			c.LimitPings(r.pings)
		}
	})
}

// Stop ends all connections. Calls under way may finish until ctx ends.
func (r *Server) Stop(ctx context.Context) { r.calls.Stop(ctx) }

// handle answers a call.
func (r *Server) handle(method string, s grpc.ServerStream) error {
	// A panic ends the process, as in etcd's own server: who panics may hold a lock.
	defer func() {
		if reason := recover(); reason != nil {
			go panic(reason)
			select {}
		}
	}()
	switch h := r.handlers[method]; {
	case h.unary != nil:
		answer, err := h.unary.Handler(h.service, s.Context(), s.RecvMsg, r.unary)
		if err != nil {
			return err
		}
		return s.SendMsg(answer)
	case h.stream != nil:
		return r.stream(h.service, s, h.about, h.stream.Handler)
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if r.services[service] {
		return status.Errorf(codes.Unimplemented, "unknown method %v for service %v", name, service)
	}
	return status.Errorf(codes.Unimplemented, "unknown service %v", service)
}

func chainUnary(all ...grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	first, rest := all[0], all[1:]
	if len(rest) == 0 {
		return first
	}
	next := chainUnary(rest...)
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		return first(ctx, request, info, func(ctx context.Context, request any) (any, error) {
			return next(ctx, request, info, handle)
		})
	}
}

func chainStream(all ...grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	first, rest := all[0], all[1:]
	if len(rest) == 0 {
		return first
	}
	next := chainStream(rest...)
	return func(service any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return first(service, s, info, func(service any, s grpc.ServerStream) error { return next(service, s, info, handle) })
	}
}
