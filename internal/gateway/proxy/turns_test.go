package proxy

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"

	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/progress"
)

// bigBytes is the size of the value that the answers have.
const bigBytes = 1 << 20

// arriving counts the answers of etcd that have begun to arrive, and those with the big value that were received: before
// a transaction is executed in another form, etcd is asked whether it would execute it.
type arriving struct{ begun, received atomic.Int64 }

func (a *arriving) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (a *arriving) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (a *arriving) HandleConn(context.Context, stats.ConnStats)                       {}
func (a *arriving) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InHeader:
		a.begun.Add(1)
	case *stats.InPayload:
		if s.Length >= bigBytes {
			a.received.Add(1)
		}
	}
}

// TestAnswersMadeHereTakeTurns: of a client that reads nothing, no more answers are received from etcd than it has turns,
// whether the gateway passes them on or makes them of others.
func TestAnswersMadeHereTakeTurns(t *testing.T) {
	const calls, turns = 48, 16
	etcd := startEtcd(t)
	must(open(t, etcd).Put(t.Context(), "big", strings.Repeat("x", bigBytes)))(t)
	all := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	for method, request := range map[string]any{
		methodRange:       all,
		methodRangeStream: all,
		methodTxn:         &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: all}}}},
	} {
		t.Run(method, func(t *testing.T) {
			arrived := new(arriving)
			up := must(grpc.NewClient(etcd, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(arrived)))(t)
			defer up.Close()
			f := &forwarder{conn: up, codec: newCodec(), txns: engine.NewTxns(up), shown: new(progress.Mark)}
			s := grpcserver.New(grpcserver.Options{
				Codec: f.codec, Unary: isUnary, Handle: f.handle, MaxMessageBytes: 1 << 20,
			})
			l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			go s.Serve(l) // it ends with the server
			ctx, cancel := context.WithCancel(t.Context())
			defer s.Stop(ctx)
			defer cancel()
			client := must(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithStaticStreamWindowSize(64<<10)))(t)
			defer client.Close()
			for range calls {
				down := must(client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method))(t)
				if err := down.SendMsg(request); err != nil {
					t.Fatal(err)
				}
				if err := down.CloseSend(); err != nil {
					t.Fatal(err)
				}
			}
			for arrived.begun.Load() < calls || arrived.received.Load() < turns {
				if t.Context().Err() != nil {
					t.Fatal(t.Context().Err())
				}
				runtime.Gosched()
			}
			if n := arrived.received.Load(); n != turns {
				t.Errorf("%d answers were received, %d may be", n, turns)
			}
		})
	}
}

// TestWritesAreReceivedWhenTheyMay: the answer to a write that goes through the cache is received as its caller says.
func TestWritesAreReceivedWhenTheyMay(t *testing.T) {
	etcd := startEtcd(t)
	g := startCached(t, etcd, startChain(t, 3, 4), Cache{})
	g.hot(t, "k") // so it has a session
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k"), PrevKv: true}}}
	if !returnsValues(put) {
		t.Error("the answer to a put with prev_kv has no value")
	}
	received := 0
	ctx := engine.WithReceive(t.Context(), func(_ context.Context, answer any, receive func() error) error {
		if received++; answer.(*pb.TxnResponse).Header != nil {
			t.Error("the answer was received before")
		}
		return receive()
	})
	if _, _, _, err := g.cache.Write(ctx, put, put); err != nil || received != 1 {
		t.Errorf("%d answers were received so: %v", received, err)
	}
}

func TestRangesRead(t *testing.T) {
	one := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a")}}}
	some := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("b")}}}
	count := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
		RequestRange: &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("b"), CountOnly: true},
	}}
	deleted := func(returned bool) *pb.RequestOp {
		d := &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("b"), PrevKv: returned}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: d}}
	}
	txn := func(success, failure []*pb.RequestOp) *pb.RequestOp {
		t := &pb.TxnRequest{Success: success, Failure: failure}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}
	}
	type ops = []*pb.RequestOp
	for i, test := range []struct {
		op   *pb.RequestOp
		want int
	}{
		{one, 0}, {some, 1}, {count, 0}, {deleted(false), 0}, {deleted(true), 1}, {txn(nil, nil), 0},
		{txn(ops{some, one, some}, ops{deleted(true)}), 2}, {txn(ops{some}, ops{some, some, deleted(true)}), 3},
		{txn(ops{some, txn(ops{some, some}, nil)}, nil), 3},
	} {
		if got := rangesRead(test.op); got != test.want {
			t.Errorf("operation %d reads %d ranges, want %d", i, got, test.want)
		}
	}
}
