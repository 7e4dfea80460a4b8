package member

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Configure has clients' calls pass the front. Whatever serves a connection, its calls pass the same interceptors.
func (f *Front) Configure(c *embed.Config) {
	f.intercept(c)
	if Refused(c) != "" {
		return
	}
	f.ping = keepalive.ServerParameters{Time: c.GRPCKeepAliveInterval, Timeout: c.GRPCKeepAliveTimeout}
	f.pings.MinTime = cmp.Or(c.GRPCKeepAliveMinTime, defaultPings)
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions,
		grpc.Creds(taker{insecure.NewCredentials(), f}))
	if slices.ContainsFunc(c.ListenClientUrls, secure) {
		f.takeSecure(c)
	}
}

// defaultPings is what gRPC's own server has if etcd's flag is 0.
const defaultPings = 5 * time.Minute

// intercept has the calls that etcd's own gRPC server serves pass the front.
func (f *Front) intercept(c *embed.Config) {
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions,
		grpc.ChainUnaryInterceptor(f.unary), grpc.ChainStreamInterceptor(f.stream))
}

// Refused returns the setting because of which etcd's own gRPC server serves the connections; empty: the front does.
func Refused(c *embed.Config) string {
	switch {
	case len(c.ListenClientHttpUrls) > 0 && slices.ContainsFunc(c.ListenClientUrls, secure):
		return "client URLs with TLS and others for HTTP"
	case c.EnableDistributedTracing:
		return "distributed tracing"
	}
	return ""
}

func secure(u url.URL) bool { return u.Scheme == "https" || u.Scheme == "unixs" }

// taker takes the connections of etcd's own gRPC server from it before anything is read.
type taker struct {
	credentials.TransportCredentials
	front *Front
}

// ServerHandshake takes a connection.
func (t taker) ServerHandshake(n net.Conn) (net.Conn, credentials.AuthInfo, error) {
	go t.front.serveConn(n)
	return nil, nil, credentials.ErrConnDispatched
}

// serveConn serves a connection once calls may pass.
func (f *Front) serveConn(n net.Conn) {
	select {
	case <-f.started:
		f.rpc.ServeConn(n)
	case <-f.stopped:
		n.Close()
	}
}

// Clone implements [credentials.TransportCredentials].
func (t taker) Clone() credentials.TransportCredentials { return t }

// Stop ends clients' connections. Calls under way may finish until ctx ends.
func (f *Front) Stop(ctx context.Context) {
	f.once.Do(func() { close(f.stopped) })
	select {
	case <-f.started:
		f.rpc.Stop(ctx)
	default:
	}
}
