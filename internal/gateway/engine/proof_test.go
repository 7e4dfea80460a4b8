package engine

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/objects"
)

// changingLeader is an etcd that changes its leader during the first transaction.
type changingLeader struct {
	pb.UnimplementedKVServer
	asked int
}

func (c *changingLeader) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if c.asked++; c.asked == 1 {
		return nil, rpctypes.ErrGRPCLeaderChanged
	}
	ranges, answer := []*pb.RangeResponse{{}, {}}, &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 7}, Succeeded: true}
	if put := r.Success[0].GetRequestPut(); put != nil {
		ranges[1].Kvs = []*mvccpb.KeyValue{{Key: put.Key, Value: put.Value}}
		answer.Responses = []*pb.ResponseOp{{}}
	}
	for _, r := range ranges {
		answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: r}})
	}
	return answer, nil
}

// restored is an etcd that was restored from a backup. It calls meanwhile when it is asked for the directory.
type restored struct {
	pb.UnimplementedKVServer
	meanwhile func()
	deleted   bool
}

func (r *restored) Range(_ context.Context, q *pb.RangeRequest) (*pb.RangeResponse, error) {
	if string(q.Key) != timelineKey {
		r.meanwhile()
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil
}

func (r *restored) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	r.deleted = true
	return &pb.TxnResponse{Succeeded: true}, nil
}

// TestNewTimelinesAreFinished: the session ends while its gateway takes the lost history out of etcd. It does so all
// the same: else the next gateway finds it and ends too.
func TestNewTimelinesAreFinished(t *testing.T) {
	e := withoutEtcd(t)
	ctx, cancel := context.WithCancel(t.Context())
	etcd := &restored{meanwhile: cancel}
	e.o.Etcd = dial(t, etcd)
	e.newest.Store(26)
	if err := e.prove(ctx, nil); !errors.Is(err, ErrRestored) || !etcd.deleted {
		t.Errorf("%v; deleted: %v", err, etcd.deleted)
	}
}

// withoutEtcd is a gateway that reaches neither etcd nor the chain.
func withoutEtcd(t *testing.T) *Engine {
	t.Helper()
	away, err := grpc.NewClient("passthrough:///none", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { away.Close() })
	e := &Engine{
		o:     Options{Etcd: away, Lease: time.Millisecond, Log: slog.New(slog.DiscardHandler)},
		store: objects.New(new(objects.Late), nil, ""), core: core.New(core.Options{Name: "test", Prefix: OwnPrefix}),
		gone: make(chan struct{}), identified: make(chan struct{}), reveals: make(map[uint64]chan struct{}), calls: make(map[uint64]time.Time),
		auth: newAuthentication(time.Millisecond), open: make(chan struct{}),
	}
	e.ctx, e.stop = context.WithCancel(t.Context())
	e.ended, e.closed = context.WithCancel(t.Context())
	t.Cleanup(e.closed)
	close(e.identified)
	return e
}

// TestUnguardedWritesAreBounded: a write without the guard passes only while etcd refuses requests without a token, and for a while.
func TestUnguardedWritesAreBounded(t *testing.T) {
	e := withoutEtcd(t)
	e.withdraw(ErrAuth, bootTime())
	ctx, cancel, err := e.Unguarded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > unguardedWithin {
		t.Errorf("a write without the guard ends at %v, %v", end, bounded)
	}
	if stillRefused+unguardedWithin >= quiet {
		t.Errorf("such a write may take until others cache again: %v and %v, quiet is %v", stillRefused, unguardedWithin, quiet)
	}
	old := withoutEtcd(t)
	old.withdraw(ErrAuth, bootTime()-int64(stillRefused))
	close(old.open) // etcd answers everybody again
	if _, _, err := old.Unguarded(t.Context()); !errors.Is(err, errAgain) {
		t.Errorf("a write after authentication was disabled: %v", err)
	}
}

// TestRevealWhenTheCacheEnds: an answer that waits for the chain is shown when the cache has ended and a session's
// lifetime has passed.
func TestRevealWhenTheCacheEnds(t *testing.T) {
	e := withoutEtcd(t)
	revealed := make(chan error, 1)
	go func() { revealed <- e.Reveal(t.Context(), core.Answers, 7) }()
	waits := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.reveals) > 0
	}
	for !waits() && len(revealed) == 0 {
		runtime.Gosched()
	}
	e.withdraw(ErrAuth, bootTime())
	if err := <-revealed; err != nil {
		t.Error(err)
	}
}

// dial serves an etcd until the test ends, and returns a connection to it.
func dial(t *testing.T, etcd pb.KVServer) *grpc.ClientConn {
	t.Helper()
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	pb.RegisterKVServer(server, etcd)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///etcd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestStartWhileLeaderChanges: a gateway starts although etcd changes its leader.
func TestStartWhileLeaderChanges(t *testing.T) {
	if etcd, err := identify(t.Context(), dial(t, new(changingLeader)), "test"); err != nil || etcd.cluster != 7 {
		t.Errorf("cluster %d, %v", etcd.cluster, err)
	}
}
