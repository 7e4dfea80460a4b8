package proxy

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// readyWithin is how long a call waits while no member is connected. A restarting member takes less. etcd's own clients
// wait until their deadline; a client of a gateway shall learn that etcd is away.
const readyWithin = 10 * time.Second

// awaitReady waits until a member is connected, at most for a time. If one is, the call waits for another connection in
// case this one breaks just now. Else it fails with the reason why there is none.
func awaitReady(ctx context.Context, conn *grpc.ClientConn, within time.Duration) grpc.CallOption {
	if conn.GetState() == connectivity.Ready {
		return grpc.WaitForReady(true)
	}
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		state := conn.GetState()
		if state == connectivity.Idle {
			conn.Connect()
		}
		if state == connectivity.Ready || state == connectivity.Shutdown || !conn.WaitForStateChange(waiting, state) {
			// A call whose own time is over says that, and the reason.
			return grpc.WaitForReady(state == connectivity.Ready || ctx.Err() != nil)
		}
	}
}

// whenReady has all calls to etcd wait for a member.
func whenReady(within time.Duration) []grpc.DialOption {
	unary := func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		return invoke(ctx, method, in, out, conn, append(options, awaitReady(ctx, conn, within))...)
	}
	stream := func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return open(ctx, d, conn, method, append(options, awaitReady(ctx, conn, within))...)
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)}
}
