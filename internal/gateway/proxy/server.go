package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/soheilhy/cmux"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/test/bufconn"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// Options configure the server and the etcd that it forwards calls to.
type Options struct {
	Listen    string // host:port
	Clients   TowardsClients
	Endpoints []string
	Etcd      TowardsEtcd
	Advertise string        // URL that the member list shows; empty: etcd's own list is passed on
	Metrics   []string      // more URLs on which pages are served
	KeepAlive KeepAlive     // towards etcd
	Follow    time.Duration // how often the endpoints are taken from etcd's member list; 0: never
	Cache     *Cache        // nil: nothing is cached
	Profiles  bool          // serve profiles of this process below /debug/pprof/
	Log       *slog.Logger
}

// Cache says where keys are cached.
type Cache struct {
	Chain     *client.Client
	ChainName string // the same for all gateways with this chain
	Placement placement.Options
	Lease     time.Duration // of the gateway's session; 0: the default
}

// KeepAlive says how a silent connection is noticed.
type KeepAlive struct {
	Time, Timeout time.Duration // Time 0: not at all
	Idle          bool          // also without calls
}

func (k KeepAlive) client() keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: k.Time, Timeout: k.Timeout, PermitWithoutStream: k.Idle}
}

// reconnect is how soon a member that is away is tried again.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

const (
	// minPing is how often clients may send pings; etcd has the same.
	minPing = 5 * time.Second
	// pingEvery and pingTimeout are how the server notices that a client is away; etcd has the same.
	pingEvery   = 2 * time.Hour
	pingTimeout = 20 * time.Second
	// endWithin is how long calls may take when the server ends.
	endWithin = 500 * time.Millisecond
	// readHeader bounds how long a client may take to send the header of a request on HTTP.
	readHeader = 5 * time.Second
)

// Server serves etcd's clients.
type Server struct {
	options  Options
	etcd     *tls.Config // towards etcd; nil: as the endpoints' URLs say
	conn     *upstream
	grpc     *grpc.Server
	http     *http.Server
	listener net.Listener
	more     []net.Listener
	cache    *engine.Engine    // nil: nothing is cached
	own      *bufconn.Listener // calls of the pages
	ownConn  *grpc.ClientConn
}

// New listens and connects. [Server.Serve] serves.
func New(ctx context.Context, o Options) (*Server, error) {
	endpoints, err := parseEndpoints(o.Endpoints)
	if err != nil {
		return nil, err
	}
	etcd, err := o.Etcd.config()
	if err != nil {
		return nil, err
	}
	conn, err := dial(endpoints, etcd, o.KeepAlive)
	if err != nil {
		return nil, fmt.Errorf("connections to etcd: %w", err)
	}
	s := &Server{options: o, etcd: etcd, conn: conn}
	if err := s.checkVersion(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := s.startCache(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.grpc = s.newGRPC()
	handler, err := s.pages(ctx)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: readHeader}
	if s.listener, err = s.listen(o.Listen, true); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	for _, address := range o.Metrics {
		l, err := s.listenPages(address)
		if err != nil {
			return nil, errors.Join(err, s.listener.Close(), conn.Close())
		}
		s.more = append(s.more, l)
	}
	return s, nil
}

// Addr is the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

func (s *Server) listen(address string, secure bool) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: name another address with --listen", err)
	}
	if !secure {
		return l, nil
	}
	wrapped, err := s.options.Clients.wrap(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return wrapped, nil
}

// startCache brings the cache up, if there is one, and the way that the pages' calls take: through this server, as clients' do.
func (s *Server) startCache(ctx context.Context) (err error) {
	s.own = bufconn.Listen(ownBuffer)
	s.ownConn, err = grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.own.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if c := s.options.Cache; err == nil && c != nil {
		s.cache, err = engine.Start(ctx, engine.Options{
			Etcd: s.conn.ClientConn, Chain: c.Chain, ChainName: c.ChainName, Placement: c.Placement, Lease: c.Lease, Log: s.options.Log,
		})
	}
	return err
}

// ownBuffer is how much of a page's call may be under way within the process.
const ownBuffer = 1 << 20

func (s *Server) newGRPC() *grpc.Server {
	f := &forwarder{s.conn.ClientConn, newCodec(), s.cache}
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(f.codec), grpc.UnknownServiceHandler(f.handle),
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32), grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.NumStreamWorkers(streamWorkers), // their stacks have grown already
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
	)
	if s.options.Advertise != "" {
		server.RegisterService(&memberList, &members{s.options.Advertise, f})
	}
	r := reflection.ServerOptions{Services: services{}}
	grpc_reflection_v1.RegisterServerReflectionServer(server, reflection.NewServerV1(r))
	grpc_reflection_v1alpha.RegisterServerReflectionServer(server, reflection.NewServer(r))
	return server
}

// streamWorkers is how many goroutines are kept for calls. If all are busy, a call gets a new one.
const streamWorkers = 64

// services are the services that calls are passed on to, for reflection.
type services struct{}

func (services) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := map[string]grpc.ServiceInfo{"etcdserverpb.Watch": {}}
	for name := range unary {
		info[name] = grpc.ServiceInfo{}
	}
	return info
}

// members answers MemberList with the gateway itself, so that clients that look for members do not pass it by.
type members struct {
	url string
	*forwarder
}

// memberList is the service Cluster, of which only MemberList is answered here.
var memberList = grpc.ServiceDesc{
	ServiceName: "etcdserverpb.Cluster", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{
		{StreamName: "MemberList", Handler: listMembers, ServerStreams: true, ClientStreams: true},
		{StreamName: "MemberAdd", Handler: passMember, ServerStreams: true, ClientStreams: true},
		{StreamName: "MemberRemove", Handler: passMember, ServerStreams: true, ClientStreams: true},
		{StreamName: "MemberUpdate", Handler: passMember, ServerStreams: true, ClientStreams: true},
		{StreamName: "MemberPromote", Handler: passMember, ServerStreams: true, ClientStreams: true},
	},
}

func passMember(srv any, down grpc.ServerStream) error { return srv.(*members).handle(nil, down) }

// listMembers keeps the header of etcd's answer, and etcd's errors.
func listMembers(srv any, down grpc.ServerStream) error {
	m := srv.(*members)
	var in pb.MemberListRequest
	if err := down.RecvMsg(&in); err != nil {
		return err
	}
	all, err := pb.NewClusterClient(m.conn).MemberList(onward(down.Context()), &in)
	if err != nil {
		return err
	}
	if m.cache != nil {
		if err := m.cache.Reveal(down.Context(), all.GetHeader().GetRevision()); err != nil {
			return err
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return down.SendMsg(&pb.MemberListResponse{
		Header: all.Header, Members: []*pb.Member{{Name: name, ClientURLs: []string{m.url}}},
	})
}

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	if s.options.Follow > 0 {
		following, stop := context.WithCancel(ctx)
		defer stop()
		go s.conn.track(following, s.options.Follow, s.options.Log)
	}
	mux := cmux.New(s.listener)
	grpcListener, httpListener := mux.Match(cmux.HTTP2()), mux.Match(cmux.Any())
	failed := make(chan error, 4+len(s.more))
	go func() { failed <- s.grpc.Serve(s.own) }()
	go func() { failed <- s.grpc.Serve(grpcListener) }()
	go func() { failed <- s.http.Serve(httpListener) }()
	go func() { failed <- mux.Serve() }()
	for _, l := range s.more {
		go func() { failed <- s.http.Serve(l) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.end()
	return err
}

// end lets calls under way finish, shortly. Watches would never.
func (s *Server) end() {
	done := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(done) }()
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.grpc.Stop()
		<-done
	}
	if s.cache != nil {
		s.cache.Close()
	}
	if err := errors.Join(s.http.Close(), s.ownConn.Close(), s.conn.Close()); err != nil {
		s.options.Log.Debug("the gateway's end", "error", err)
	}
}
