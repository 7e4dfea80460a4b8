package serve

import (
	"context"
	"math"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// ownBuffer is how much of a page's call may be under way within the process.
const ownBuffer = 1 << 20

// Own is the connection of a gateway to itself, within the process: calls of its pages take the path of clients' calls.
type Own struct {
	Conn     *grpc.ClientConn
	listener *bufconn.Listener
}

// NewOwn makes the connection. Its calls wait until [Own.Serve] serves them.
func NewOwn() (*Own, error) {
	listener := bufconn.Listen(ownBuffer)
	conn, err := grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	return &Own{conn, listener}, err
}

// Serve has the gateway's server answer the calls, until the server ends.
func (o *Own) Serve(calls *grpcserver.Server) error { return calls.Serve(o.listener) }

// Close closes the connection.
func (o *Own) Close() error { return o.Conn.Close() }
