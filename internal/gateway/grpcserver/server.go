package grpcserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/netcraq/netcraq/internal/platform/workers"
)

// Options say how calls are answered.
type Options struct {
	Codec Codec
	// Unary reports whether a method has one request and one answer. Its request is received before the call begins.
	Unary func(method string) bool
	// Begin may take a unary call. It must not wait. If it returns true, [Call.Answer], [Call.Fail] or [Call.Pass] follows, once,
	// on any goroutine. The message is valid until it returns. nil: no call is taken.
	Begin func(c *Call, method string, message []byte) bool
	// Handle answers every other call, on a goroutine of its own.
	Handle func(method string, s grpc.ServerStream) error
	// Page answers the requests that are not gRPC calls. nil: they are refused.
	Page http.Handler
	// Waits reports whether a unary method may wait for long, such as for a lock. Of all other unary calls of a
	// connection [maxRunning] are answered at a time. nil: none waits.
	Waits func(method string) bool
	// Ended is called once for each gRPC call, with the code of its answer; Canceled if the client has reset it. It
	// must not wait. nil: nothing is called.
	Ended func(method string, code codes.Code)
	// Memory bounds requests and answers of all connections. nil: [DefaultMemory] for this server alone.
	Memory *Memory
	// MaxCalls limits the calls under way of a connection. 0: [maxCalls].
	MaxCalls int
	// MaxMessageBytes is the largest request. It is also the unit of what requests that have not arrived as a whole may
	// take: see [largeOfConn].
	MaxMessageBytes int
	// ReceiveTimeout is how long a large request waits for memory, and then how long it may take to arrive. It also bounds
	// how long a header takes, and the request of a unary call: see [conn.overdue]. 0: 30 s.
	ReceiveTimeout time.Duration
	// A connection without a frame for PingEvery gets a ping. It ends if none comes for PingTimeout after that.
	PingEvery, PingTimeout time.Duration
}

// Limits of one connection.
const (
	// maxCalls limits the calls under way. A call that the client has reset counts until it has ended.
	maxCalls = 10_000
	// maxOutputBytes of frames wait for the client at most: beyond it no more of its requests are read.
	maxOutputBytes = 1 << 20
	// maxHeaderBytes bounds the decoded header of a call; the call is refused beyond it. An encoded one of more than
	// maxBlockBytes ends the connection. maxHeadersBytes bounds the headers of all calls under way: beyond it new calls
	// are refused.
	maxHeaderBytes  = 256 << 10
	maxBlockBytes   = 1 << 20
	maxHeadersBytes = 16 << 20
	// maxSettings limits the SETTINGS frames of a connection in settingsTime. Each may change the windows of all its calls.
	// The client of gRPC for Go sends fewer than 20 as it adapts its window to the network.
	maxSettings  = 100
	settingsTime = time.Minute
	// maxInFrame limits the settings in one frame. HTTP/2 defines seven.
	maxInFrame = 32
	// connWindow and callWindow are how many bytes of requests may wait here, of all calls and of one.
	connWindow = 1 << 20
	callWindow = 256 << 10
	// smallBytes is the largest request that reserves no memory (see [reservation]). The handler of a longer one takes it
	// in parts.
	smallBytes = 16 << 10
	// maxSent limits the frames that are sent, whatever the client takes.
	maxSent = 64 << 10
	// maxKept limits each of the two buffers that a connection keeps while it has nothing to write.
	maxKept = 64 << 10
	// sendBuffer is how many bytes of a stream's messages may wait for the client's window before SendMsg waits.
	sendBuffer = 64 << 10
	// maxRunning unary calls are answered by handlers at a time. The others wait for their turn.
	maxRunning = 128
	// maxAnswers of these may have an answer that is received from elsewhere, encoded, or waits for the client. Short
	// answers do not count while no more than maxHeldBytes of messages wait for the client's windows.
	maxAnswers   = 16
	shortAnswer  = 64 << 10
	maxHeldBytes = 16 << 20
	// waitingBytes is what a call takes elsewhere that waits until its answer may be received: the window towards etcd.
	waitingBytes = 128 << 10
	// maxResting workers wait for the next call.
	maxResting = 256
	// prefaceTimeout is how long a client may take to send the first frame.
	prefaceTimeout = 20 * time.Second
)

// serverAnswers is how many answers are received from elsewhere at a time, for all connections: their sizes are not known
// before. As many ranges at most are received in answers of several ranges, or one such answer.
const serverAnswers = 32

// Server serves gRPC calls.
type Server struct {
	o       Options
	answers *semaphore.Weighted  // of all connections, that are received from elsewhere
	ranges  *semaphore.Weighted  // in answers of several ranges, of all connections, that are received from elsewhere
	workers *workers.Pool[*Call] // of handlers
	ended   chan struct{}        // closed when the server ends

	mu        sync.Mutex
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	ending    bool
	gone      sync.WaitGroup // connections and their calls
}

// New makes a server; [Server.Serve] serves.
func New(o Options) *Server {
	if o.ReceiveTimeout == 0 {
		o.ReceiveTimeout = 30 * time.Second
	}
	if o.Memory == nil {
		o.Memory = NewMemory(0)
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = maxCalls
	}
	ended := make(chan struct{})
	answer := func(call *Call) { call.conn.contain("a handler", call.handle) }
	return &Server{
		o: o, answers: semaphore.NewWeighted(serverAnswers), ranges: semaphore.NewWeighted(serverAnswers),
		workers: workers.New(maxResting, ended, answer), ended: ended,
		listeners: make(map[net.Listener]bool), conns: make(map[*conn]bool),
	}
}

var errEnding = errors.New("the server is ending")

// Serve serves the connections of a listener until Accept fails or the server ends. It is for connections from within the
// process: Accept does not fail for a while, and no connection is ended for want of memory.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.ending {
		s.mu.Unlock()
		return errors.Join(errEnding, l.Close())
	}
	s.listeners[l] = true
	s.mu.Unlock()
	for {
		n, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.listeners, l)
			if s.ending {
				return nil
			}
			return err
		}
		s.serve(n, true, func(*Connection) {})
	}
}

// Connection is a connection that is served.
type Connection struct{ *conn }

// ServeConn serves one connection, on goroutines of its own, unless the server ends: then it closes the connection. known
// gets the connection before anything is read of it.
func (s *Server) ServeConn(n net.Conn, known func(*Connection)) { s.serve(n, false, known) }

// serve serves one connection. One that is trusted is not ended for want of memory, and has as many calls as it wants: it
// carries those of many clients, which are limited where they arrive. It has a memory of its own, so that no other
// connection ends for what it holds.
func (s *Server) serve(n net.Conn, trusted bool, known func(*Connection)) {
	c := newConn(s, n)
	if trusted {
		c.trusted, c.account = true, NewMemory(0).join(c.account.name, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		n.Close()
		return
	}
	s.conns[c] = true
	known(&Connection{c})
	s.gone.Go(func() {
		c.run()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Idle reports whether no call is under way.
func (c *Connection) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active == 0 && len(c.calls) == 0
}

// End lets the calls under way end, and takes no others.
func (c *Connection) End() {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		_ = c.net.SetWriteDeadline(time.Now().Add(goAwayTimeout)) // an error says that it is closed
	}
}

// Stop ends the server. Calls under way may finish until ctx ends; no others begin.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	if !s.ending {
		close(s.ended)
	}
	s.ending = true
	for l := range s.listeners {
		l.Close()
	}
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.drain()
	}
	done := make(chan struct{})
	go func() { s.gone.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	for _, c := range conns {
		c.close()
	}
	<-done
}
