package memory

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/soheilhy/cmux"
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
	"github.com/netcraq/netcraq/internal/gateway/proxy"
)

// healthTimeout is how long the read of a health check may take.
const healthTimeout = time.Second

// ServerOptions configure a gateway and where it listens.
type ServerOptions struct {
	Options
	Listen  string // host:port
	Clients proxy.TowardsClients
	// PeerCertificates are for connections to other gateways, whose Clients are as this one's.
	PeerCertificates proxy.TowardsEtcd
}

// Server is a gateway that listens.
type Server struct {
	*Gateway
	listener net.Listener
	calls    *grpcserver.Server
	http     *http.Server
}

// Listen makes a gateway and listens. [Server.Serve] serves.
func Listen(o ServerOptions) (*Server, error) {
	peers, err := o.peers()
	if err != nil {
		return nil, err
	}
	plain, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: name another address with --listen", err)
	}
	if o.Advertise, err = advertised(o.Advertise, plain.Addr()); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	listener, err := o.Clients.Wrap(plain)
	if err != nil {
		return nil, err
	}
	o.Peers = peers
	g, err := New(o.Options)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{Gateway: g, listener: listener}
	pages := s.pages()
	s.http = proxy.NewHTTPServer(pages)
	s.calls = s.serveCalls(pages, o.secure(), g.o.MaxRequestBytes)
	return s, nil
}

func (o *ServerOptions) secure() bool { return o.Clients.Cert != "" || o.Clients.Auto }

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

// Addr is the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve runs the gateway and serves until ctx ends or the keyspace is lost.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.o.Log.Warn("this keyspace is in memory only: it is lost if all nodes of one chain lose their state at the same time",
		"keyspace", s.o.Name)
	mux := cmux.New(s.listener)
	mux.SetReadTimeout(proxy.ReadHeader)
	calls, pages := mux.Match(cmux.HTTP2()), mux.Match(cmux.Any())
	failed := make(chan error, 3)
	go func() { failed <- s.calls.Serve(calls) }()
	go func() { failed <- s.http.Serve(pages) }()
	go func() { failed <- mux.Serve() }()
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
	within, stop := context.WithTimeout(context.Background(), proxy.EndWithin)
	defer stop()
	s.calls.Stop(within)
	if err := s.http.Close(); err != nil {
		s.o.Log.Debug("the gateway's end", "error", err)
	}
	return err
}

// serveCalls makes the server of clients' calls.
func (s *Server) serveCalls(pages http.Handler, secure bool, maxRequestBytes int) *grpcserver.Server {
	name, err := os.Hostname()
	if err != nil {
		name = s.o.Advertise
	}
	url := "http://" + s.o.Advertise
	if secure {
		url = "https://" + s.o.Advertise
	}
	streams, unary := make(map[string]func(grpc.ServerStream) error), make(map[string]bool)
	for _, service := range []struct {
		desc   *grpc.ServiceDesc
		server any
	}{
		{&pb.KV_ServiceDesc, &kvServer{g: s.Gateway}},
		{&pb.Watch_ServiceDesc, &watchServer{g: s.Gateway}},
		{&pb.Lease_ServiceDesc, &leaseServer{g: s.Gateway}},
		{&pb.Cluster_ServiceDesc, &clusterServer{g: s.Gateway, name: name, url: url}},
		{&pb.Maintenance_ServiceDesc, &maintenanceServer{g: s.Gateway}},
		{&pb.Auth_ServiceDesc, &pb.UnimplementedAuthServer{}},
		{&grpc_health_v1.Health_ServiceDesc, &healthServer{g: s.Gateway}},
	} {
		for _, method := range service.desc.Methods {
			path := "/" + service.desc.ServiceName + "/" + method.MethodName
			unary[path] = true
			streams[path] = func(down grpc.ServerStream) error {
				answer, err := method.Handler(service.server, down.Context(), down.RecvMsg, nil)
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
	streams[relayMethod] = s.serveRelay
	return grpcserver.New(grpcserver.Options{
		Begin: s.begin,
		Codec: encoding.GetCodecV2(proto.Name), Unary: func(method string) bool { return unary[method] },
		Handle: func(method string, down grpc.ServerStream) error {
			handle := streams[method]
			switch {
			case handle == nil:
				return status.Errorf(codes.Unimplemented, "a memory keyspace has no %s", method)
			case !requiresLeader(down.Context()):
				return handle(down)
			case !unary[method]:
				return s.whileLed(down, handle)
			case s.ledFor() <= 0:
				return rpctypes.ErrGRPCNoLeader
			}
			return handle(down)
		},
		Page: pages, MaxMessageBytes: maxRequestBytes + proxy.OverheadBytes, PingEvery: proxy.PingEvery, PingTimeout: proxy.PingTimeout,
	})
}

// pages serves etcd's pages on HTTP.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.Handler())
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"etcdserver": version.Version, "etcdcluster": version.Version})
	})
	health := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		if err := s.healthy(ctx); err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"health": "false", "reason": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"health": "true", "reason": ""})
	}
	for _, path := range []string{"/health", "/livez", "/readyz"} {
		mux.HandleFunc(path, health)
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
