package grpcserver

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Requests of more than smallBytes need room before they are received, in units of [Options].MaxMessageBytes. A call
// keeps it until its handler asks for another request, or ends.
const (
	largeOfConn   = 16  // of one connection
	largeOfServer = 256 // of all
)

// room is what a call holds of the memory for large requests.
type room struct {
	bytes int64
	late  *bool // whether the request did not arrive in time; the connection's mu guards it
}

// reserve waits for room for a request of n bytes.
func (s *Call) reserve(n int) error {
	s.release()
	if n <= smallBytes {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.conn.server.o.ReceiveTimeout)
	defer cancel()
	for _, of := range s.rooms() {
		if err := of.Acquire(ctx, int64(n)); err != nil {
			if of == s.conn.server.large {
				s.conn.large.Release(int64(n))
			}
			return s.noRoom()
		}
	}
	s.room.bytes = int64(n)
	return nil
}

// rooms are the bounds that hold for the call: its connection's first, so that a connection that waits for its own
// requests holds no room of others.
func (s *Call) rooms() [2]*semaphore.Weighted {
	return [...]*semaphore.Weighted{s.conn.large, s.conn.server.large}
}

// noRoom is the error of a request for which there is no room in time.
func (s *Call) noRoom() error {
	if s.ctx.Err() != nil {
		return s.lost()
	}
	return status.Error(codes.ResourceExhausted,
		"too many large requests are under way at this gateway: try again, or use another one")
}

// release gives back the room of the call's last request.
func (s *Call) release() {
	if s.room.bytes == 0 {
		return
	}
	for _, of := range s.rooms() {
		of.Release(s.room.bytes)
	}
	s.room.bytes = 0
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.room.late = nil
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
