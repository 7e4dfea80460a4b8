package member

import (
	"context"
	"net"
	"net/url"
	"slices"

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
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions,
		grpc.Creds(taker{insecure.NewCredentials(), f}))
}

// intercept has the calls that etcd's own gRPC server serves pass the front.
func (f *Front) intercept(c *embed.Config) {
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions,
		grpc.ChainUnaryInterceptor(f.unary), grpc.ChainStreamInterceptor(f.stream))
}

// Refused returns the setting because of which etcd's own gRPC server serves the connections; empty: the front does.
func Refused(c *embed.Config) string {
	secure := func(u url.URL) bool { return u.Scheme == "https" || u.Scheme == "unixs" }
	switch {
	case slices.ContainsFunc(c.ListenClientUrls, secure):
		return "client URLs with TLS"
	case c.EnableDistributedTracing:
		return "distributed tracing"
	}
	return ""
}

// taker takes the connections of etcd's own gRPC server from it before anything is read.
type taker struct {
	credentials.TransportCredentials
	front *Front
}

// ServerHandshake takes a connection.
func (t taker) ServerHandshake(n net.Conn) (net.Conn, credentials.AuthInfo, error) {
	go func() {
		select {
		case <-t.front.started:
			t.front.rpc.ServeConn(n)
		case <-t.front.stopped:
			n.Close()
		}
	}()
	return nil, nil, credentials.ErrConnDispatched
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
