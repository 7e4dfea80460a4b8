package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

const (
	// PingEvery and PingTimeout are how a server notices that a client is away; etcd has the same.
	PingEvery   = 2 * time.Hour
	PingTimeout = 20 * time.Second
	// EndWithin is how long calls may take when a server ends.
	EndWithin = 500 * time.Millisecond
	// handshakeTimeout bounds a handshake of TLS; etcd has the same.
	handshakeTimeout = 10 * time.Second
	// readHeader bounds how long a client may take to send the first bytes of a connection, which tell its protocol, and
	// the header of a request of HTTP/1.
	readHeader = 5 * time.Second
)

// Server serves a gateway's clients: gRPC, and pages on HTTP/1 and HTTP/2.
type Server struct {
	// StuckAfter is how long no connection may be accepted before [Server.Accepting] fails. It must not change after
	// Serve has begun.
	StuckAfter time.Duration

	calls *grpcserver.Server // and pages over HTTP/2
	http  *http.Server
	log   *slog.Logger
	open  connections
	stuck atomic.Pointer[time.Time] // since when no connection can be accepted; nil: they are
}

// New makes a server with a limit of connections; 0: [DefaultConnections]. Pages are those of HTTP/1.
func New(calls *grpcserver.Server, pages http.Handler, most int, log *slog.Logger) *Server {
	if most == 0 {
		most = DefaultConnections()
	}
	s := &Server{
		StuckAfter: stuckAfter, calls: calls, http: newHTTPServer(pages), log: log, open: connections{most: most, log: log},
	}
	s.http.ConnState = noteState
	return s
}

// pageConnections is the limit of connections of a server of pages alone: monitoring opens few.
const pageConnections = 64

// NewPages makes a server of pages alone.
func NewPages(pages http.Handler, log *slog.Logger) *Server {
	calls := grpcserver.New(grpcserver.Options{
		Page: pages, Unary: func(string) bool { return false }, PingEvery: PingEvery, PingTimeout: PingTimeout,
		Handle: func(method string, _ grpc.ServerStream) error {
			return status.Errorf(codes.Unimplemented, "%s is not served on this port", method)
		},
	})
	return New(calls, pages, pageConnections, log)
}

// Serve serves the connections of a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l *Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	web := &queue{Listener: l, conns: make(chan net.Conn), ended: ctx.Done()}
	failed := make(chan error, 2)
	go func() { failed <- s.http.Serve(web) }()
	go func() {
		failed <- Accept(ctx, l, func(n net.Conn) {
			if c := s.open.add(n); c != nil {
				go s.serve(c, l.secure, web)
				return
			}
			n.Close()
		}, s.accepting)
	}()
	err := <-failed
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// serve finds out what the client speaks, and serves it.
func (s *Server) serve(c *connection, secure *tls.Config, web *queue) {
	n, err := s.handshake(c, secure)
	if err != nil {
		s.log.Debug("a connection ends before its first request", "client", c.RemoteAddr().String(), "error", err)
		n.Close()
		return
	}
	prefix, calls, err := sniff(n)
	if err == nil {
		err = n.SetReadDeadline(time.Time{})
	}
	if err != nil {
		s.log.Debug("a connection ends before its first request", "client", c.RemoteAddr().String(), "error", err)
		farewell(c, n)
		return
	}
	read := &prefixed{Conn: n, prefix: prefix, below: c, web: !calls}
	if !calls {
		web.push(read)
		return
	}
	s.calls.ServeConn(authenticated(read), func(served *grpcserver.Connection) { c.uses(served.Idle, served.End) })
}

// farewell ends a connection of which some bytes may not be read. The client sees its end, and no reset.
func farewell(c *connection, n net.Conn) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil && n.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, farewellBytes) // the client may have gone
	}
	n.Close()
}

// farewellBytes bounds what is read of a client that speaks no HTTP.
const farewellBytes = 4 << 10

// handshake makes the connection one of TLS, if clients are to use it.
func (s *Server) handshake(c *connection, secure *tls.Config) (net.Conn, error) {
	if secure == nil {
		return c, c.SetReadDeadline(time.Now().Add(readHeader))
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	n := tls.Server(c, secure)
	if err := n.HandshakeContext(ctx); err != nil {
		return n, err
	}
	return n, n.SetReadDeadline(time.Now().Add(readHeader))
}

// errSpeaks is the error of a client that speaks neither HTTP/2 nor HTTP/1.
var errSpeaks = errors.New("it speaks no HTTP")

// methods are how requests of HTTP/1 begin.
var methods = []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "CONNECT ", "TRACE "}

// sniff reads as much as tells whether the client speaks HTTP/2. The client that sends the preface of HTTP/2 calls; one
// of HTTP/1 wants a page.
func sniff(n net.Conn) (prefix []byte, calls bool, err error) {
	buffer := make([]byte, len(http2.ClientPreface))
	for read := 0; ; {
		m, err := n.Read(buffer[read:])
		read += m
		text := string(buffer[:read])
		begins := func(method string) bool { return strings.HasPrefix(method, text) }
		switch {
		case text == http2.ClientPreface:
			return buffer, true, nil
		case slices.ContainsFunc(methods, func(method string) bool { return strings.HasPrefix(text, method) }):
			return buffer[:read], false, nil
		case err != nil:
			return nil, false, err
		case !strings.HasPrefix(http2.ClientPreface, text) && !slices.ContainsFunc(methods, begins):
			return nil, false, errSpeaks
		}
	}
}

// prefixed is a connection whose first bytes have been read.
type prefixed struct {
	net.Conn
	prefix []byte
	below  *connection
	web    bool        // it speaks HTTP/1
	busy   atomic.Bool // a request of HTTP/1 is under way
}

// Read reads what was read before, then the rest.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		if p.prefix = p.prefix[n:]; len(p.prefix) == 0 {
			p.prefix = nil
		}
		return n, nil
	}
	return p.Conn.Read(b)
}

// secured is a connection with TLS: its calls have the client's certificate.
type secured struct {
	*prefixed
	state tls.ConnectionState // after the handshake
}

// ConnectionState returns the state of TLS, by which handlers know the client.
func (s secured) ConnectionState() tls.ConnectionState { return s.state }

// authenticated returns a connection that has the state of TLS of the one below, if that has any.
func authenticated(p *prefixed) net.Conn {
	if n, is := p.Conn.(*tls.Conn); is {
		return secured{p, n.ConnectionState()}
	}
	return p
}

// Write writes. Over HTTP/1 the client has to take it in time.
func (p *prefixed) Write(b []byte) (int, error) {
	if p.web {
		if err := p.SetWriteDeadline(time.Now().Add(bodyTimeout)); err != nil {
			return 0, err
		}
	}
	return p.Conn.Write(b)
}

// noteState notes whether a connection of HTTP/1 has a request under way.
func noteState(n net.Conn, state http.ConnState) {
	p, ok := n.(*prefixed)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		p.below.uses(func() bool { return !p.busy.Load() }, func() { p.Close() })
	case http.StateIdle:
		p.busy.Store(false)
	case http.StateActive, http.StateHijacked:
		p.busy.Store(true)
	}
}

// queue is a listener of connections that were accepted elsewhere.
type queue struct {
	net.Listener // its address
	conns        chan net.Conn
	ended        <-chan struct{}
}

// push gives a connection to the server that accepts from the queue.
func (q *queue) push(n net.Conn) {
	select {
	case q.conns <- n:
	case <-q.ended:
		n.Close()
	}
}

// Accept waits for a connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case n := <-q.conns:
		return n, nil
	case <-q.ended:
		return nil, net.ErrClosed
	}
}

// Stop ends the server's connections. Calls may finish until ctx ends.
func (s *Server) Stop(ctx context.Context) {
	s.calls.Stop(ctx)
	if err := s.http.Close(); err != nil {
		s.log.Debug("the end of the pages' server", "error", err)
	}
	for _, n := range s.open.all() {
		n.Close() // it has sent no request yet
	}
}
