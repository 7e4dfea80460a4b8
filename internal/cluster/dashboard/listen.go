package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Listen listens at an address of the form host:port. at is the address that it got.
func Listen(ctx context.Context, address string) (listener net.Listener, at *net.TCPAddr, err error) {
	var listening net.ListenConfig
	if listener, err = listening.Listen(ctx, "tcp", address); err != nil {
		return nil, nil, err
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("%v is no TCP address", listener.Addr()), listener.Close())
	}
	return listener, at, nil
}
