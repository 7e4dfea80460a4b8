package proxy

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestCallsWaitForRestart: calls that begin while etcd's only member restarts wait for it, as with etcd's own clients.
func TestCallsWaitForRestart(t *testing.T) {
	const etcd, peer = "127.66.19.1:2379", "127.66.19.1:2380"
	end := startEtcdAt(t, etcd, peer)
	u := must(dial(must(parseEndpoints([]string{etcd}))(t), nil, KeepAlive{}, time.Minute))(t)
	defer u.Close()
	put := func() error {
		_, err := pb.NewKVClient(u.ClientConn).Put(t.Context(), &pb.PutRequest{Key: []byte("a")})
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	end()
	for state := u.GetState(); state != connectivity.TransientFailure; state = u.GetState() {
		u.Connect()
		u.WaitForStateChange(t.Context(), state)
	}
	answered := make(chan error, 1)
	go func() { answered <- put() }()
	startEtcdAt(t, etcd, peer)
	if err := <-answered; err != nil {
		t.Errorf("during the restart: %v", err)
	}
}

// TestCallsDoNotWaitForever: a call whose etcd stays away fails with the reason.
func TestCallsDoNotWaitForever(t *testing.T) {
	u := must(dial(must(parseEndpoints([]string{etcdtest.FreePort(t)}))(t), nil, KeepAlive{}, time.Millisecond))(t)
	defer u.Close()
	_, err := pb.NewKVClient(u.ClientConn).Put(t.Context(), &pb.PutRequest{Key: []byte("a")})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}

// TestCallsUnderWayEnd: calls that are under way, or begin, when etcd becomes unreachable fail, though they have no
// deadline.
func TestCallsUnderWayEnd(t *testing.T) {
	etcd := startEtcd(t)
	for range 20 {
		w := startLine(t, etcd)
		u := must(dial(must(parseEndpoints([]string{w.listener.Addr().String()}))(t), nil, KeepAlive{}, time.Millisecond))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var begun, calls sync.WaitGroup
		for range 64 {
			begun.Add(1)
			calls.Go(func() {
				began := sync.OnceFunc(begun.Done)
				for {
					_, err := pb.NewKVClient(u.ClientConn).Range(ctx, &pb.RangeRequest{Key: []byte("a")})
					began()
					switch {
					case ctx.Err() != nil:
						t.Error("a call waits for etcd without an end")
						return
					case err != nil:
						return
					}
				}
			})
		}
		begun.Wait()
		w.cut()
		calls.Wait()
		cancel()
		u.Close()
	}
}
