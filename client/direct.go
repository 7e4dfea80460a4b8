package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// maxSockets bounds the operations that run each on a socket of its own; more at once share a pipeline.
const maxSockets = 64

// sockets are the client's own, for one operation at a time each. The socket is not connected, because the tail may answer
// what another node was asked.
type sockets struct {
	mu     sync.Mutex
	idle   []*socket // used last, taken first
	all    []*socket
	closed bool
}

// socket runs one operation at a time on its caller's goroutine: one system call to send, one or two to receive, and no
// other goroutine to wake.
type socket struct {
	conn *net.UDPConn
	call call
	out  []byte
	in   [wire.MaxMessageBytes]byte
}

// take returns a socket, or nil if as many as allowed are in use.
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
	if len(s.all) == maxSockets {
		return nil, nil
	}
	conn, err := listen(o)
	if err != nil {
		return nil, err
	}
	taken := &socket{conn: conn, out: make([]byte, 0, wire.MaxMessageBytes)}
	s.all = append(s.all, taken)
	return taken, nil
}

func (s *sockets) release(returned *socket) {
	returned.call = call{} // keeps nothing of the caller's alive
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

// run does one operation: on a socket of its own if there is one, else in the pipeline.
func (c *Client) run(ctx context.Context, op *Op) (Result, error) {
	s, err := c.sockets.take(&c.options)
	if err != nil {
		return Result{}, err
	}
	if s == nil {
		return c.runShared(ctx, op)
	}
	defer c.sockets.release(s)
	if err := s.call.begin(ctx, c, op); err != nil {
		return Result{}, err
	}
	s.run(ctx)
	return s.call.result, s.call.err
}

// run takes the socket's call to its end.
func (s *socket) run(ctx context.Context) {
	if ctx.Done() != nil {
		// A late interruption, after the operation's end, only makes the next one on this socket look at its clock.
		stop := context.AfterFunc(ctx, func() { s.conn.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	for !s.attempt(ctx) {
	}
}

// attempt sends once and waits for what follows. It returns whether the call has ended.
func (s *socket) attempt(ctx context.Context) bool {
	k := &s.call
	now := time.Now()
	message, to, ok := k.next(now, k.client.requestID(0), s.out[:0])
	if !ok {
		return true
	}
	until, pausing := now.Add(k.client.options.Attempt), false
	if _, err := s.conn.WriteToUDPAddrPort(message, to.addr); err != nil {
		k.unsent(err)
		until, pausing = now.Add(k.pause()), true
	}
	for {
		until = earlier(until, k.until)
		var answer wire.Message
		from, err := s.receive(until, &answer)
		now = time.Now()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			k.expire(ErrClosed)
			return true
		case ctx.Err() != nil:
			k.expire(ctx.Err())
			return true
		case !now.Before(k.until):
			k.expire(ErrTimeout)
			return true
		case !now.Before(until):
			if !pausing {
				k.missed()
			}
			return false
		default:
			continue // an error about another datagram, or an interruption meant for an earlier call
		}
		switch k.judge(now, from, &answer) {
		case done:
			return true
		case refresh:
			if err := k.client.renew(ctx, k.view); err == nil {
				return false
			} else if err != errStillOld {
				k.cause = err
			}
			fallthrough
		case later:
			until, pausing = now.Add(k.pause()), true
		}
	}
}

// receive waits for the next reply, whoever sent it.
func (s *socket) receive(until time.Time, answer *wire.Message) (netip.AddrPort, error) {
	if err := s.conn.SetReadDeadline(until); err != nil {
		return netip.AddrPort{}, err
	}
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(s.in[:])
		if err != nil {
			return from, err
		}
		if wire.DecodeReply(s.in[:n], answer) == nil {
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
