package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// maxSockets is how many operations may run each on a socket of its own, however many CPUs there are: more at once
// gain from sharing datagrams. It is also the most sockets that are shared.
const maxSockets = 4

// sockets are the client's sockets, each for one operation at a time. They are not connected, because the tail may answer
// a request to another node.
type sockets struct {
	most    int64        // operations under way for one to run on a socket of its own
	running atomic.Int64 // operations under way, those without a socket of their own included

	mu     sync.Mutex
	idle   []*socket // used last, taken first
	all    []*socket
	closed bool
}

// socket runs one operation at a time on its caller's goroutine: one system call to send, one or two to receive, and
// no other goroutine to wake. It waits in Go's poller. A socket that blocks its thread instead answered an echo on
// loopback 3 of 18 microseconds sooner, but would keep other goroutines from their processor meanwhile; and where a
// kernel answers, the reply is there before the call that sent the request returns, so that no goroutine waits.
type socket struct {
	conn     *net.UDPConn
	call     call
	start    start   // of the call
	outcome  Outcome // of the call
	out      []byte
	in       [wire.MaxDatagramBytes]byte
	answer   wire.Message // in in
	deadline time.Time    // that the connection has
}

// take returns a socket.
func (s *sockets) take(o *Options) (*socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if n := len(s.idle); n > 0 {
		taken := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return taken, nil
	}
	conn, err := listen(o)
	if err != nil {
		return nil, err
	}
	taken := &socket{conn: conn, out: make([]byte, 0, wire.MaxDatagramBytes)}
	s.all = append(s.all, taken)
	return taken, nil
}

func (s *sockets) release(returned *socket) {
	returned.call.clear()
	returned.start, returned.outcome = start{}, Outcome{}
	s.mu.Lock()
	s.idle = append(s.idle, returned)
	s.mu.Unlock()
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, each := range s.all {
		each.conn.Close()
	}
}

func listen(o *Options) (*net.UDPConn, error) {
	address := &net.UDPAddr{}
	if o.Local.IsValid() {
		address.IP = o.Local.AsSlice()
	}
	return net.ListenUDP("udp4", address)
}

// run does one operation: on a socket of its own while there are few, which is fastest; else in the pipeline, where
// those of one moment share datagrams and system calls.
func (c *Client) run(ctx context.Context, op *Op) (Result, error) {
	if c.options.Observe == nil {
		return c.runUnobserved(ctx, op)
	}
	ended := c.observeOne(ctx, op)
	r, err := c.runUnobserved(ctx, op)
	ended(r, err)
	return r, err
}

func (c *Client) runUnobserved(ctx context.Context, op *Op) (Result, error) {
	defer c.sockets.running.Add(-1)
	if c.sockets.running.Add(1) > c.sockets.most {
		return c.runShared(ctx, op)
	}
	s, err := c.sockets.take(&c.options)
	if err != nil {
		return Result{}, err
	}
	defer c.sockets.release(s)
	s.run(ctx, c, op)
	return s.outcome.Result, s.outcome.Err
}

// cancelCheck is how often a waiting operation looks whether its context was cancelled. To be told instead would cost
// every operation a registration with its context.
const cancelCheck = 10 * time.Millisecond

// mapCheck is how often a waiting operation looks whether a newer map makes waiting useless.
const mapCheck = 2 * time.Millisecond

// run does an operation and leaves its outcome.
func (s *socket) run(ctx context.Context, c *Client, op *Op) {
	s.outcome = Outcome{}
	key, err := op.hashedKey()
	if err != nil {
		s.outcome.Err = err
		return
	}
	s.start = c.start(ctx, op.kind.IsWrite())
	if !s.call.begin(&s.start, op, &key, &s.outcome) {
		return
	}
	now := s.start.now
	for !s.attempt(ctx, now) {
		now = time.Now()
	}
	s.outcome.Value = slices.Clone(s.outcome.Value) // the receive buffer is used again
}

// attempt sends once and waits for the answer or the timeout. It returns whether the call has ended.
func (s *socket) attempt(ctx context.Context, now time.Time) bool {
	k := &s.call
	message, to, ok := k.next(now, k.client().requestID(0), s.out[:0])
	if !ok {
		return true
	}
	until, pausing := now.Add(k.patience()), false
	if _, err := s.conn.WriteToUDPAddrPort(message, to.addr); err != nil {
		k.unsent(err)
		until, pausing = now.Add(k.pause()), true
	}
	for {
		from, err := s.receive(s.wakeAt(ctx, now, until))
		now = time.Now()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			k.expire(ErrClosed)
			return true
		case errors.Is(ctx.Err(), context.Canceled):
			k.expire(ctx.Err())
			return true
		case ctx.Err() != nil || !now.Before(k.until()):
			if !s.drain() {
				k.expire(ctx.Err())
			}
			return true
		case !now.Before(until):
			if !pausing {
				k.missed(now)
			}
			return false
		case k.overtaken():
			return false
		default:
			continue // time to look at the map, at the context, or an error about another datagram
		}
		switch k.judge(now, from, &s.answer) {
		case done:
			return true
		case later:
			until, pausing = now.Add(k.pause()), true
		}
	}
}

// drain takes the answers that are in the socket when the call's time is up, and returns whether one of them ended the
// call. A process that was paused finds its deadline passed and the answer in the socket at once.
func (s *socket) drain() bool {
	until := time.Now().Add(tick)
	for {
		from, err := s.receive(until)
		if err != nil {
			return false
		}
		if s.call.judge(time.Now(), from, &s.answer) == done {
			return true
		}
	}
}

// wakeAt is when a call that waits has something else to do than to receive.
func (s *socket) wakeAt(ctx context.Context, now, until time.Time) time.Time {
	until = earlier(until, s.call.until())
	if s.call.client().options.Follow != nil {
		return earlier(until, now.Add(mapCheck))
	}
	if ctx.Done() != nil {
		until = earlier(until, now.Add(cancelCheck))
	}
	return until
}

// slack is the acceptable delay of the end of a wait. It is small compared with the cost of a lost packet, and large
// compared with the time of an operation.
const slack = 250 * time.Microsecond

// receive waits for the next reply, from any sender, until the given time and at most the slack longer: setting the
// socket's deadline costs half a microsecond, and most operations can use the one set for an earlier one.
func (s *socket) receive(until time.Time) (netip.AddrPort, error) {
	if s.deadline.Before(until) || s.deadline.After(until.Add(slack)) {
		s.deadline = until.Add(slack)
		if err := s.conn.SetReadDeadline(s.deadline); err != nil {
			return netip.AddrPort{}, err
		}
	}
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(s.in[:])
		if err != nil {
			return from, err
		}
		if s.call.client().read(s.in[:n], from, &s.answer) {
			return from, nil
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
