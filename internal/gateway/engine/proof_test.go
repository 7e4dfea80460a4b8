package engine

import (
	"context"
	"net"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
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
	put := r.Success[0].GetRequestPut()
	ranges := []*pb.RangeResponse{{}, {Kvs: []*mvccpb.KeyValue{{Key: put.Key, Value: put.Value}}}}
	answer := &pb.TxnResponse{Header: &pb.ResponseHeader{ClusterId: 7}, Succeeded: true, Responses: []*pb.ResponseOp{{}}}
	for _, r := range ranges {
		answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: r}})
	}
	return answer, nil
}

// TestStartWhileLeaderChanges: a gateway starts although etcd changes its leader.
func TestStartWhileLeaderChanges(t *testing.T) {
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	pb.RegisterKVServer(server, new(changingLeader))
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///etcd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if etcd, err := identify(t.Context(), conn, "test"); err != nil || etcd.cluster != 7 {
		t.Errorf("cluster %d, %v", etcd.cluster, err)
	}
}
