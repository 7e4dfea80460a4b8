package proxy

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// readyWithin is how long a call waits while no member is connected. A restarting member takes less. etcd's own clients
// wait until their deadline; a client of a gateway shall learn that etcd is away.
const readyWithin = 10 * time.Second

// awaitReady waits until a member is connected, at most until a time. ready is false if none is.
func awaitReady(ctx context.Context, conn *grpc.ClientConn, until time.Time) (ready bool) {
	if conn.GetState() == connectivity.Ready {
		return true
	}
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		state := conn.GetState()
		if state == connectivity.Idle {
			conn.Connect()
		}
		if state == connectivity.Ready || state == connectivity.Shutdown || !conn.WaitForStateChange(waiting, state) {
			return state == connectivity.Ready
		}
	}
}

// attempts calls do until its call was sent to a member, or no member is connected in time. Then it fails with the reason.
// gRPC itself would wait without an end for another member, if the connection that the call was meant for breaks.
func attempts(ctx context.Context, conn *grpc.ClientConn, within time.Duration, do func() (sent bool, err error)) error {
	for until := time.Now().Add(within); ; {
		ready := awaitReady(ctx, conn, until)
		sent, err := do()
		if sent || status.Code(err) != codes.Unavailable || !ready || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
	}
}

// whenReady has all calls to etcd wait for a member.
func whenReady(within time.Duration) []grpc.DialOption {
	unary := func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		return attempts(ctx, conn, within, func() (bool, error) {
			var member peer.Peer // of the last attempt: gRPC repeats a call that its receiver has not seen
			once := slices.Concat(options, []grpc.CallOption{grpc.WaitForReady(false), grpc.Peer(&member)})
			err := invoke(ctx, method, in, out, conn, once...)
			return member.Addr != nil, err
		})
	}
	stream := func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (opened grpc.ClientStream, err error) {
		once := append(slices.Clip(options), grpc.WaitForReady(false))
		err = attempts(ctx, conn, within, func() (bool, error) {
			opened, err = open(ctx, d, conn, method, once...)
			return err == nil, err
		})
		return opened, err
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)}
}
