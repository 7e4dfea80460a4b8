package leases

import (
	"context"
	"net"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// null is a server in this process that acknowledges every transaction at once. Its rate is that of the clients and the
// network alone: no store can be faster with the same clients on the same machine.
type null struct {
	*side
	server *grpcserver.Server
}

func (o *Options) startNull() (*null, error) {
	success, err := proto.Marshal(&pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 1}, Succeeded: true})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := grpcserver.New(grpcserver.Options{
		Codec: grpcserver.Proto{}, MaxMessageBytes: 1 << 20, PingEvery: time.Minute, PingTimeout: time.Minute,
		Unary: func(method string) bool { return method == pb.KV_Txn_FullMethodName },
		Begin: func(c *grpcserver.Call, _ string, _ []byte) bool {
			c.Answer(success)
			c.Flush()
			return true
		},
		Handle: func(string, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "transactions only") },
	})
	go func() { _ = s.Serve(l) }() // it ends with stop
	n := &null{server: s}
	if n.side, err = o.connect([]string{l.Addr().String()}); err != nil {
		s.Stop(context.Background())
		return nil, err
	}
	return n, nil
}

func (n *null) stop() {
	n.hangUp()
	n.server.Stop(context.Background())
}
