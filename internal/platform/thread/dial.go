package thread

import (
	"context"
	"net"
)

// DialIn returns a function that opens TCP connections from the network namespace at a path, for grpc.WithContextDialer.
func DialIn(namespace string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (conn net.Conn, err error) {
		err = In(namespace, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
			return err
		})
		return conn, err
	}
}
