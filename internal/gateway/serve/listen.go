package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"time"
)

// Listener is a listener of clients' connections.
type Listener struct {
	net.Listener
	secure *tls.Config // nil: connections are not encrypted
}

// Listen listens on the address that a flag names. The zero value of c does not encrypt.
func Listen(flag, address string, c TowardsClients) (*Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: name another address with %s", err, flag)
	}
	secure, err := c.Config(l.Addr())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Listener{l, secure}, nil
}

// Pauses after an error of Accept, as net/http has.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// temporary reports whether Accept may succeed later: without descriptors or memory, or because the client went away.
func temporary(err error) bool {
	for _, e := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET,
		syscall.EINTR, syscall.EAGAIN, syscall.EPROTO, syscall.EPERM,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Accept calls take with each connection of a listener until the listener is closed, ctx ends or accepting fails for good.
// It accepts below TLS: an error ends no listener above, and no handshake delays the next connection. failing gets the
// first error after which it goes on, and nil when a connection is accepted again.
func Accept(ctx context.Context, l net.Listener, take func(net.Conn), failing func(error)) error {
	pause := time.Duration(0)
	for {
		n, err := l.Accept()
		switch {
		case err == nil:
			if pause > 0 {
				failing(nil)
				pause = 0
			}
			take(n)
			continue
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case !temporary(err):
			return fmt.Errorf("no more connections are accepted: %w", err)
		}
		if pause == 0 {
			failing(err)
		}
		pause = min(max(2*pause, firstPause), maxPause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// accepting notes whether connections are accepted.
func (s *Server) accepting(err error) {
	if err == nil {
		s.stuck.Store(nil)
		return
	}
	s.log.Error("connections wait to be accepted", "error", err)
	now := time.Now() // not as a number: the clock on the wall may jump
	s.stuck.Store(&now)
}

// ListenPages listens on a URL for pages alone: it asks for no certificate unless its scheme is https, so its pages may
// not lead to keys and values.
func ListenPages(address string, c TowardsClients) (*Listener, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL to serve metrics on: want http://host:port", address)
	}
	if u.Scheme != "https" {
		c = TowardsClients{}
	}
	return Listen("--metrics-addr", u.Host, c)
}
