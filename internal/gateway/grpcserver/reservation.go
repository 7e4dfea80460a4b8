package grpcserver

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// largeOfConn is how many requests of more than smallBytes a connection may send at a time, in units of
// [Options].MaxMessageBytes. A call keeps its share until its handler asks for another request, or ends. The share is
// taken when the length is known, so that the connection holds the end of a request with its beginning. A connection
// takes the memory of its server as its requests arrive: see [Memory].
const largeOfConn = 16

// reservation is what a call has taken of the memory for requests, and for an answer that was received. The
// connection's mu guards it: a stream may receive a request on another goroutine than its handler's, after the handler
// has ended.
type reservation struct {
	bytes    int64
	charged  int   // as the request arrives
	answered int   // of an answer that was received from elsewhere and is not encoded yet
	late     *bool // whether the request did not arrive in time
	ranges   int   // that the request reads: see [Call.Reads]
	closed   bool  // the handler has ended: nothing is taken any more
}

// reserve waits for the memory of a request of n bytes.
func (s *Call) reserve(n int) error {
	s.release()
	if n <= smallBytes {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.conn.server.o.ReceiveTimeout)
	defer cancel()
	if err := s.conn.large.Acquire(ctx, int64(n)); err != nil {
		return s.tooManyLarge()
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.reserved.closed {
		s.conn.large.Release(int64(n))
		return s.lost()
	}
	s.reserved.bytes = int64(n)
	return nil
}

// charge counts bytes of a request that arrive.
func (s *Call) charge(n int) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if !s.reserved.closed {
		s.reserved.charged += n
		s.conn.charge(n)
	}
}

// holds counts an answer that was received, until it is encoded. A call whose handler has ended sends none.
func (s *Call) holds(answer int) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if !s.reserved.closed {
		s.conn.charge(answer - s.reserved.answered)
		s.reserved.answered = answer
	}
}

// tooManyLarge is the error of a request whose memory is not free in time.
func (s *Call) tooManyLarge() error {
	if s.ctx.Err() != nil {
		return s.lost()
	}
	return status.Error(codes.ResourceExhausted,
		"too many large requests are under way on this connection: try again, or use another one")
}

// release gives back the memory of the call's last request.
func (s *Call) release() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.leave()
}

// leave does the work of release. The caller holds mu.
func (s *Call) leave() {
	s.conn.large.Release(s.reserved.bytes)
	s.conn.charge(-s.reserved.charged)
	s.reserved.bytes, s.reserved.charged, s.reserved.late = 0, 0, nil
}

// close gives back all memory, for good. The caller holds mu.
func (s *Call) close() {
	s.leave()
	s.conn.charge(-s.reserved.answered)
	s.reserved.answered, s.reserved.closed = 0, true
}

// expire ends the wait for a request that has not arrived by then. The result stops the timer.
func (s *Call) expire(after time.Duration) (stop func() bool) {
	c, late := s.conn, new(bool)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.reserved.late = late
	return c.after(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		*late = true
		s.wake()
	}).Stop
}

// errLate is the error of a request that did not arrive in time.
var errLate = status.Error(codes.ResourceExhausted, "the request did not arrive in time")

// takeTurn waits until an answer may take memory. So what waits for a client that does not read stays where it comes
// from. taken is how much memory the answer takes there. n is how much it will take here, which is counted, and size
// returns it again after a wait; 0 and nil: that is not known.
func (s *Call) takeTurn(taken func() int, n int, size func() int) error {
	c := s.conn
	c.mu.Lock()
	has, over := s.turn, s.over
	c.mu.Unlock()
	switch {
	case has:
		return nil
	case over:
		return s.lost()
	}
	if !c.turns.TryAcquire(1) {
		there := taken()
		s.wait(there)
		err := c.turns.Acquire(s.ctx, 1)
		s.wait(-there)
		if err != nil {
			return s.lost()
		}
		if size != nil {
			n = size()
		}
	}
	if n > c.account.of.largest() {
		c.turns.Release(1)
		return status.Errorf(codes.ResourceExhausted, "the answer would take %d MiB of memory, and the gateway has "+
			"%d MiB for all answers: read fewer keys at a time", n>>20, c.account.of.largest()>>20)
	}
	waited := c.account.wait(s.ctx, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !waited || s.over {
		if waited {
			c.charge(-n)
		}
		c.turns.Release(1)
		return s.lost()
	}
	s.turn = true
	s.reserved.answered += n
	return nil
}

// Reserve waits until an answer may be made that takes as much memory as size returns, and counts it until it is
// encoded. So what clients ask for and do not read is not made. Small answers do not wait, and neither do those of
// streams: they wait as they are sent. size is called again after the wait for other answers.
func (s *Call) Reserve(size func() int) error {
	if !s.unary {
		return nil
	}
	n := size()
	if n <= smallBytes {
		return nil
	}
	return s.takeTurn(func() int { return 0 }, n, size)
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

// Receive has a handler receive its answer from elsewhere, where it has begun to arrive: when it is the call's turn on
// its connection, and among the answers of unknown size that the server receives at a time.
func (s *Call) Receive(ctx context.Context, answer any, receive func() error) error {
	if err := s.takeTurn(func() int { return waitingBytes }, 0, nil); err != nil {
		return err
	}
	return s.ReceiveNow(ctx, answer, receive)
}

// ReceiveNow is [Call.Receive] for an answer for which others than this call's client wait: it does not wait until the
// client reads. It may be called when the handler has ended.
func (s *Call) ReceiveNow(ctx context.Context, answer any, receive func() error) error {
	slots, n := s.slots()
	if err := slots.Acquire(ctx, n); err != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	defer slots.Release(n)
	err := receive()
	if err == nil {
		s.holds(size(answer))
	}
	return err
}

// Reads says how many ranges the call's request reads: its answer may have all keys as many times.
func (s *Call) Reads(ranges int) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.reserved.ranges = ranges
}

// slots returns the slots of which the answer takes some while it is received, and how many. An answer of several ranges
// has other slots than the rest, which does not wait for it.
func (s *Call) slots() (*semaphore.Weighted, int64) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if n := s.reserved.ranges; n > 1 {
		return s.conn.server.ranges, int64(min(n, serverAnswers))
	}
	return s.conn.server.answers, 1
}
