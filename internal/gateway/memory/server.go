package memory

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/locks"
	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/platform/metrics"
)

// healthTimeout is how long the read of a health check may take.
const healthTimeout = time.Second

// ServerOptions configure a gateway and where it listens.
type ServerOptions struct {
	Options
	Listen  string // host:port
	Clients serve.TowardsClients
	Metrics []string // more URLs on which pages are served
	// Profiles has profiles of the process served below /debug/pprof/.
	Profiles bool
	// MaxConnections is the limit of clients' connections. 0: [serve.DefaultConnections].
	MaxConnections int
	// PeerCertificates are for connections to other gateways, whose Clients are as this one's.
	PeerCertificates serve.TowardsEtcd
}

// Server is a gateway that listens.
type Server struct {
	*Gateway
	listener *serve.Listener
	clients  *serve.Server
	server   *grpcserver.Server
	memory   *grpcserver.Memory // of clients' requests and answers
	profiles bool
	locks    *locks.Services
	own      *serve.Own        // calls of the pages
	plain    *serve.Server     // of the pages alone
	more     []*serve.Listener // of plain
}

// Listen makes a gateway and listens. [Server.Serve] serves.
func Listen(o ServerOptions) (*Server, error) {
	peers, err := o.peers()
	if err != nil {
		return nil, err
	}
	listener, err := serve.Listen("--listen", o.Listen, o.Clients)
	if err != nil {
		return nil, err
	}
	if o.Advertise, err = advertised(o.Advertise, listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	o.Peers, o.CertificateNames = peers, o.Clients.CA != ""
	g, err := New(o.Options)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{
		Gateway: g, listener: listener, memory: cmp.Or(g.o.memory, serve.RequestMemory()), profiles: o.Profiles,
	}
	pages, err := s.api()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.plain = serve.NewPages(s.pages(), g.o.Log)
	s.server = s.serveCalls(pages, o.secure())
	s.clients = serve.New(s.server, pages, o.MaxConnections, g.o.Log)
	for _, address := range o.Metrics {
		l, err := serve.ListenPages(address, o.Clients)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.more = append(s.more, l)
	}
	return s, nil
}

func (o *ServerOptions) secure() bool { return o.Clients.Encrypts() }

// peers are the credentials towards other gateways.
func (o *ServerOptions) peers() (credentials.TransportCredentials, error) {
	config, err := o.PeerCertificates.Config()
	switch {
	case err != nil:
		return nil, err
	case config == nil && o.secure():
		return nil, errors.New("gateways forward calls to each other, and this one asks for TLS: " +
			"name the authority of the gateways' certificates with --cacert, or use --insecure-skip-tls-verify in tests")
	case config == nil || !o.secure():
		return nil, nil
	}
	return credentials.NewTLS(withoutName(config)), nil
}

func withoutName(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ServerName = "" // that of the address
	return c
}

// advertised is the address at which other gateways reach this one.
func advertised(advertise string, listen net.Addr) (string, error) {
	if advertise != "" {
		if _, _, err := net.SplitHostPort(advertise); err != nil {
			return "", fmt.Errorf("--advertise-client-url: %w", err)
		}
		return advertise, nil
	}
	if tcp, ok := listen.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return "", fmt.Errorf("other gateways cannot reach %v: name this host's address with --advertise-client-url", listen)
	}
	return listen.String(), nil
}

// close closes the listeners, and the connection of the pages.
func (s *Server) close() error {
	err := s.listener.Close()
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	for _, l := range s.more {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Addr is the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve runs the gateway and serves until ctx ends or the keyspace is lost.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.disk == nil {
		s.o.Log.Warn("this keyspace is in memory only: it is lost if all nodes of one chain lose their state at the same time",
			"keyspace", s.o.Name)
	}
	failed := make(chan error, 2+len(s.more))
	go func() { failed <- s.own.Serve(s.server) }()
	go func() { failed <- s.clients.Serve(ctx, s.listener) }()
	for _, l := range s.more {
		go func() { failed <- s.plain.Serve(ctx, l) }()
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-ended:
		ended <- nil
	}
	cancel()
	err = errors.Join(err, <-ended)
	within, stop := context.WithTimeout(context.Background(), serve.EndWithin)
	defer stop()
	defer s.locks.Ending(2 * serve.EndWithin)()
	s.clients.Stop(within)
	s.plain.Stop(within)
	if err := s.own.Close(); err != nil {
		s.o.Log.Debug("the gateway's end", "error", err)
	}
	return err
}

// service is a service with its methods.
type service struct {
	desc   *grpc.ServiceDesc
	server any
	peers  bool // other gateways call it, not clients
}

// services are those of clients, and that of the other gateways.
func (s *Server) services() []service {
	all := []service{
		{&pb.KV_ServiceDesc, &kvServer{g: s.Gateway}, false},
		{&pb.Watch_ServiceDesc, &watchServer{g: s.Gateway}, false},
		{&pb.Lease_ServiceDesc, &leaseServer{g: s.Gateway}, false},
		{&pb.Cluster_ServiceDesc, &clusterServer{g: s.Gateway}, false},
		{&pb.Maintenance_ServiceDesc, &maintenanceServer{g: s.Gateway}, false},
		{&pb.Auth_ServiceDesc, &authServer{g: s.Gateway}, false},
		{&grpc_health_v1.Health_ServiceDesc, &healthServer{g: s.Gateway}, false},
	}
	if s.disk != nil && s.o.Others != nil {
		desc, server := s.o.Others(s.disk)
		all = append(all, service{desc, server, true})
	}
	return all
}

// probe is the key whose read tells whether there is a leader.
var probe = []byte("health")

// serveCalls makes the server of clients' calls.
func (s *Server) serveCalls(pages http.Handler, secure bool) *grpcserver.Server {
	name, err := os.Hostname()
	if err != nil {
		name = s.o.Advertise
	}
	url := "http://" + s.o.Advertise
	if secure {
		url = "https://" + s.o.Advertise
	}
	s.self.Name, s.self.ClientURLs = name, []string{url}
	streams, unary, timed := make(map[string]func(grpc.ServerStream) error), make(map[string]bool), make(map[string]bool)
	for _, service := range s.services() {
		s.calls.add(service.desc)
		for _, method := range service.desc.Methods {
			path := "/" + service.desc.ServiceName + "/" + method.MethodName
			unary[path], timed[path] = true, !service.peers
			streams[path] = func(down grpc.ServerStream) error {
				answer, err := method.Handler(service.server, withReserver(down), down.RecvMsg, nil)
				if err != nil {
					return err
				}
				return down.SendMsg(answer)
			}
		}
		for _, stream := range service.desc.Streams {
			path := "/" + service.desc.ServiceName + "/" + stream.StreamName
			streams[path] = func(down grpc.ServerStream) error { return stream.Handler(service.server, down) }
		}
	}
	kv := &kvServer{g: s.Gateway}
	streams[pb.KV_Range_FullMethodName], streams[pb.KV_RangeStream_FullMethodName] = kv.serveRange, kv.serveRangeStream
	streams[relayMethod] = s.serveRelay
	handle := func(method string, down grpc.ServerStream) error {
		s.settle(down.Context())
		handle := streams[method]
		switch {
		case handle == nil:
			return status.Errorf(codes.Unimplemented, "a memory keyspace has no %s", method)
		case !locks.RequiresLeader(down.Context()):
			return handle(down)
		case !unary[method]:
			return s.whileLed(down, handle)
		case s.ledFor() <= 0:
			return rpctypes.ErrGRPCNoLeader
		}
		return handle(down)
	}
	s.locks = locks.New(encoding.GetCodecV2(proto.Name), probe, handle)
	for _, desc := range s.locks.Descs {
		s.calls.add(desc)
	}
	for method, call := range s.locks.Calls {
		streams[method], unary[method], timed[method] = call.Answer, call.Unary, call.Unary && !locks.Waits(method)
	}
	return grpcserver.New(grpcserver.Options{
		Begin: s.begin, Waits: locks.Waits,
		Codec: grpcserver.Proto{}, Unary: func(method string) bool { return unary[method] }, Ended: s.calls.ended,
		Handle: func(method string, down grpc.ServerStream) error {
			if timed[method] {
				defer s.times.Observe(method, time.Now())
			}
			return handle(method, down)
		},
		Page: pages, MaxMessageBytes: s.o.MaxRequestBytes + serve.OverheadBytes, Memory: s.memory,
		PingEvery: serve.PingEvery, PingTimeout: serve.PingTimeout,
	})
}

// api serves the pages, and etcd's calls as JSON.
func (s *Server) api() (_ http.Handler, err error) {
	if s.own, err = serve.NewOwn(); err != nil {
		return nil, err
	}
	mux := s.pages()
	// The connection's end ends the calls.
	if err := serve.AddJSON(context.Background(), mux, s.own.Conn, s.o.MaxRequestBytes, s.memory); err != nil {
		return nil, err
	}
	return serve.AllowOrigins(mux), nil
}

// pages serves etcd's pages on HTTP.
func (s *Server) pages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Handler(s.metrics()))
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"etcdserver": version.Version, "etcdcluster": version.Version})
	})
	health := func(w http.ResponseWriter, r *http.Request) {
		err := s.answers(r.Context())
		if err == nil && s.current().Full() && !slices.Contains(r.URL.Query()["exclude"], pb.AlarmType_NOSPACE.String()) {
			err = errors.New("ALARM NOSPACE") // as etcd
		}
		if err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"health": "false", "reason": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"health": "true", "reason": ""})
	}
	mux.HandleFunc("/health", health)
	serve.AddChecks(mux, "/livez", serve.Check{Name: "accepting", Run: func(ctx context.Context) error {
		return s.clients.Accepting().Run(ctx)
	}})
	serve.AddChecks(mux, "/readyz", serve.Check{Name: "linearizable_read", Run: s.answers})
	if s.profiles {
		serve.AddProfiles(mux)
	}
	return mux
}

func writeJSON(w http.ResponseWriter, code int, answer map[string]string) {
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // the client went away
}
