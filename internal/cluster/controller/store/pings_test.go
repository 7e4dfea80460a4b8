package store

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// TestPingsAreAllowed: a client that makes a call now and then, for an hour, is never sent away by a server that allows
// pings as etcd does. Connections to endpoints that no call uses stay as well.
func TestPingsAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: embed.DefaultGRPCKeepAliveMinTime, PermitWithoutStream: false,
		}))
		pb.RegisterKVServer(server, emptyKV{})
		listener := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
		serving := make(chan error, 1)
		go func() { serving <- server.Serve(listener) }()
		config := clientConfig([]string{"passthrough:///etcd"}, nil, slog.New(slog.DiscardHandler))
		config.DialOptions = []grpc.DialOption{grpc.WithContextDialer(listener.dial)}
		client, err := clientv3.New(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if _, err := client.Get(t.Context(), "key"); err != nil {
				t.Error(err)
			}
			<-time.After(5 * time.Minute) // of the bubble
		}
		if n := listener.sentAway.Load(); n != 0 {
			t.Errorf("the server ended %d connections for too many pings", n)
		}
		if n := listener.dialed.Load(); n != 1 {
			t.Errorf("%d connections were made, want 1", n)
		}
		client.Close()
		server.Stop()
		<-serving
	})
}

// emptyKV answers as an etcd without keys.
type emptyKV struct{ pb.UnimplementedKVServer }

func (emptyKV) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}}, nil
}

// pipes is a network within a synctest bubble. It counts connections that a server ends for too many pings.
type pipes struct {
	accepted         chan net.Conn
	closed           chan struct{}
	dialed, sentAway atomic.Int32
}

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- countedConn{server, p}:
		p.dialed.Add(1)
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

type countedConn struct {
	net.Conn
	pipes *pipes
}

func (c countedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("too_many_pings")) {
		c.pipes.sentAway.Add(1)
	}
	return c.Conn.Write(b)
}
