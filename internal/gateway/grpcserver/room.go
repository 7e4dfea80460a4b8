package grpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// largeOfConn is how many requests of more than smallBytes a connection may send at a time, in units of
// [Options].MaxMessageBytes. A call keeps its share until its handler asks for another request, or ends. The share is
// taken when the length is known, so that the connection holds the end of a request with its beginning. A connection
// takes the memory of its server as its requests arrive: see [Memory].
const largeOfConn = 16

// room is what a call holds of the memory for large requests.
type room struct {
	bytes   int64
	charged int   // as it arrives
	late    *bool // whether the request did not arrive in time; the connection's mu guards it
}

// reserve waits for room for a request of n bytes.
func (s *Call) reserve(n int) error {
	s.release()
	if n <= smallBytes {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.conn.server.o.ReceiveTimeout)
	defer cancel()
	if err := s.conn.large.Acquire(ctx, int64(n)); err != nil {
		return s.noRoom()
	}
	s.room.bytes = int64(n)
	return nil
}

// charge counts bytes of a request that arrive.
func (s *Call) charge(n int) {
	s.room.charged += n
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.charge(n)
}

// noRoom is the error of a request for which there is no room in time.
func (s *Call) noRoom() error {
	if s.ctx.Err() != nil {
		return s.lost()
	}
	return status.Error(codes.ResourceExhausted,
		"too many large requests are under way on this connection: try again, or use another one")
}

// release gives back the room of the call's last request.
func (s *Call) release() {
	if s.room.charged == 0 && s.room.bytes == 0 {
		return
	}
	s.conn.large.Release(s.room.bytes)
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.charge(-s.room.charged)
	s.room.bytes, s.room.charged, s.room.late = 0, 0, nil
}

// expire ends the wait for a request that has not arrived by then. The result stops the timer.
func (s *Call) expire(after time.Duration) (stop func() bool) {
	c, late := s.conn, new(bool)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.room.late = late
	return time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		*late = true
		s.wake()
	}).Stop
}

// errLate is the error of a request that did not arrive in time.
var errLate = status.Error(codes.ResourceExhausted, "a large request did not arrive in time")

// takeTurn waits until the answer of a unary call may take memory. So what waits for a client that does not read stays
// where it comes from. taken is how much memory the answer takes there.
func (s *Call) takeTurn(taken func() int) error {
	c := s.conn
	c.mu.Lock()
	unary, has, over := s.unary && !s.request.page, s.turn, s.over
	c.mu.Unlock()
	switch {
	case !unary || has:
		return nil
	case over:
		return s.lost()
	}
	if !c.turns.TryAcquire(1) {
		n := taken()
		s.wait(n)
		err := c.turns.Acquire(s.ctx, 1)
		s.wait(-n)
		if err != nil {
			return s.lost()
		}
	}
	err := c.account.wait(s.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || s.over {
		c.turns.Release(1)
		return s.lost()
	}
	s.turn = true
	return nil
}

// wait counts what a call takes elsewhere while it waits for its turn.
func (s *Call) wait(n int) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.charge(n)
}

// answered gives the turn back if the answer is short. The caller holds mu.
func (s *Call) answered() {
	if len(s.pending) <= shortAnswer && s.conn.held <= maxHeldBytes {
		s.yield()
	}
}

// yield gives the turn to another call. The caller holds mu.
func (s *Call) yield() {
	if s.turn {
		s.turn = false
		s.conn.turns.Release(1)
	}
}

// Receive has a handler receive its answer from elsewhere, where it has begun to arrive: when it is the call's turn on its
// connection, and among the answers of unknown size that the server receives at a time.
func (s *Call) Receive(answer func() error) error {
	if err := s.takeTurn(func() int { return waitingBytes }); err != nil {
		return err
	}
	if err := s.conn.server.answers.Acquire(s.ctx, 1); err != nil {
		return s.lost()
	}
	defer s.conn.server.answers.Release(1)
	return answer()
}
