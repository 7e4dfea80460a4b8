package grpcserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/recovery"
)

// Call is one call. The [grpc.ServerStream] of handlers is a call too.
type Call struct {
	conn    *conn
	id      uint32
	request *request
	unary   bool
	whole   []byte // what was received before the handler began and needs no credit
	passed  bool
	counted bool      // among those that are limited by maxRunning
	arrived time.Time // of a call that waited for a handler

	// The connection's mu guards all below.
	reserved    reservation
	age         int    // see [conn.overdue]
	overdue     bool   // the request has not arrived in time
	started     bool   // before all was received: a handler has the call, or gets it
	body        []byte // received, and not taken yet
	received    bool   // nothing comes after it
	hasLength   bool   // its header says how long the body is
	expected    int    // bytes of that length that have not come
	ours        int    // bytes that the client may send
	unannounced int
	window      int    // bytes that may be sent
	pending     []byte // messages that wait for a window
	buffer      []byte // of pending, if it is one of the pool
	headed      bool   // the header has been sent
	trailer     bool   // nothing comes after pending but the trailer
	status      *status.Status
	header      metadata.MD
	trailers    metadata.MD
	turn        bool       // it is one of the connection's maxAnswers
	queued      bool       // among those that wait for the connection's window
	over        bool       // all was sent, or the call was reset
	changed     *sync.Cond // of a call with a handler
	ctx         context.Context
	cancel      context.CancelFunc
}

// Answer ends a call that [Options].Begin took, with one message. [Call.Flush] sends it.
func (s *Call) Answer(message []byte) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.over {
		s.head()
		if n := prefixBytes + len(message); n <= min(s.window, c.window, c.maxFrame) && len(c.out) < maxOutputBytes {
			s.window, c.window = s.window-n, c.window-n
			c.pings.sent = true
			c.out = appendFrame(c.out, http2.FrameData, 0, s.id, n)
			c.out = append(appendPrefix(c.out, len(message)), message...)
		} else {
			s.pending = append(appendPrefix(nil, len(message)), message...)
			c.hold(len(s.pending))
		}
		s.trailer = true
		s.pump()
	}
	s.ended()
}

// Fail ends a call that [Options].Begin took, with an error. [Call.Flush] sends it.
func (s *Call) Fail(err error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.over {
		s.finish(err)
	}
	s.ended()
}

// Flush sends what is ready to be sent on the call's connection.
func (s *Call) Flush() { s.conn.work.Signal() }

// Pass gives a call that [Options].Begin took to a handler. The message is what Begin got.
func (s *Call) Pass(message []byte) {
	s.passed = true
	s.whole = append(appendPrefix(make([]byte, 0, prefixBytes+len(message)), len(message)), message...)
	s.start()
}

// Caller is a context for an answer that no handler makes. It has the call's metadata, and ends with the connection.
func (s *Call) Caller() context.Context { return metadata.NewIncomingContext(s.conn.ctx, s.request.md) }

// Metadata is what the client sent with the call. It is not to be changed.
func (s *Call) Metadata() metadata.MD { return s.request.md }

// Passed reports whether [Options].Begin took the call first.
func (s *Call) Passed() bool { return s.passed }

func appendPrefix(b []byte, n int) []byte {
	return append(b, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// start has a handler answer the call, when it is its turn.
func (s *Call) start() {
	c := s.conn
	waits := c.server.o.Waits
	s.counted = s.unary && (waits == nil || !waits(s.request.method))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charge(len(s.whole))
	switch {
	case !s.counted:
	case c.running >= maxRunning:
		s.arrived = time.Now()
		c.later = append(c.later, s)
		return
	default:
		c.running++
	}
	c.server.workers.Go(s)
}

// next starts the next call when a handler has ended. The caller holds mu.
func (c *conn) next() {
	if len(c.later) == 0 {
		c.running--
		return
	}
	s := c.later[0]
	c.later[0], c.later = nil, c.later[1:]
	c.server.workers.Go(s)
}

// handle runs the handler.
func (s *Call) handle() {
	c := s.conn
	ctx := metadata.NewIncomingContext(c.ctx, s.request.md)
	var cancel context.CancelFunc
	if s.request.timeout >= 0 {
		timeout := s.request.timeout
		if !s.arrived.IsZero() {
			timeout -= time.Since(s.arrived)
		}
		ctx, cancel = context.WithTimeout(ctx, timeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	wholeBytes := len(s.whole)
	c.mu.Lock()
	s.ctx, s.cancel, s.changed = ctx, cancel, sync.NewCond(&c.mu)
	if s.over { // it was reset before
		cancel()
	}
	c.mu.Unlock()
	err := ctx.Err() // its time may be over
	switch {
	case s.request.page:
		s.servePage()
	case err == nil:
		method := s.request.method
		err = recovery.Do(method, func() error { return c.server.o.Handle(method, s) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.close()
	c.charge(-wholeBytes)
	if !s.over {
		s.finish(err)
	}
	s.answered()
	if s.counted {
		c.next()
	}
	s.ended()
	c.work.Signal()
}

// finish ends the call with what came of its handler. The caller holds mu.
func (s *Call) finish(err error) {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	s.status, s.trailer = st, true
	s.drop()
	s.pump()
	if !s.unary {
		s.conn.written.Broadcast() // a message of the call may wait
	}
}

// drop gives up what was received: nothing takes it any more. The caller holds mu.
func (s *Call) drop() {
	if len(s.body) > 0 {
		s.conn.credit(len(s.body))
		s.conn.charge(-len(s.body))
	}
	s.body = nil
}

// ended counts a call whose answer needs nothing more from others. The caller holds mu.
func (s *Call) ended() {
	c := s.conn
	if o := &c.server.o; o.Ended != nil && !s.request.page {
		o.Ended(s.request.method, s.status.Code())
	}
	c.headerBytes -= s.request.bytes
	c.charge(-s.request.bytes)
	if c.active--; c.active > 0 {
		return
	}
	c.written.Broadcast()
	if c.draining {
		c.endIfIdle()
	}
}

// endIfIdle ends a connection without calls. The caller holds mu.
func (c *conn) endIfIdle() {
	if c.active == 0 && len(c.calls) == 0 {
		c.ending = true
		c.work.Signal()
	}
}

// reset is the status of a call that the client has reset. Nobody receives it.
var reset = status.New(codes.Canceled, "the client has reset the call")

// abort ends a call that was reset. The caller holds mu.
func (s *Call) abort() {
	if s.over {
		return
	}
	s.over, s.status = true, reset
	s.drop()
	s.conn.hold(-len(s.pending))
	s.sent()
	s.yield()
	if s.cancel != nil {
		s.cancel()
	} else if s.unary && !s.started && !s.received { // no handler ever takes it
		s.ended()
	}
	s.wake()
}

// wake lets the handler look again. The caller holds mu.
func (s *Call) wake() {
	if s.changed != nil {
		s.changed.Broadcast()
	}
}

// took lets the client send as many bytes as were taken. The caller holds mu.
func (s *Call) took(n int) {
	s.conn.credit(n)
	if s.unannounced += n; s.unannounced >= callWindow/4 && !s.received && !s.over {
		s.conn.out = appendWindow(s.conn.out, s.id, s.unannounced)
		s.ours, s.unannounced = s.ours+s.unannounced, 0
		s.conn.work.Signal()
	}
}

// head sends the header, once. The caller holds mu.
func (s *Call) head() {
	if s.headed {
		return
	}
	s.headed = true
	block := [64]byte{}
	b := s.conn.answers.header(block[:0])
	if s.request.compressed() && !s.request.page {
		b = appendField(b, justLiteral, encodingField, s.request.encoding)
	}
	s.conn.block(s.id, appendMD(b, s.header), 0)
}

// block sends a block of fields, in as many frames as it takes. The caller holds mu.
func (c *conn) block(id uint32, block []byte, flags http2.Flags) {
	c.pings.sent = true
	for kind := http2.FrameHeaders; ; kind, flags = http2.FrameContinuation, 0 {
		n := min(len(block), c.maxFrame)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.out = append(appendFrame(c.out, kind, flags, id, n), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return
		}
	}
}

// pump sends what the windows allow. The caller holds mu.
func (s *Call) pump() {
	c := s.conn
	if s.over {
		return
	}
	before := len(s.pending)
	for len(s.pending) > 0 && s.window > 0 && c.window > 0 && len(c.out) < maxOutputBytes {
		n := min(len(s.pending), s.window, c.window, c.maxFrame)
		c.out = append(appendFrame(grow(c.out, frameBytes+n), http2.FrameData, 0, s.id, n), s.pending[:n]...)
		s.pending, s.window, c.window = s.pending[n:], s.window-n, c.window-n
		c.pings.sent = true
		c.work.Signal()
	}
	c.held += len(s.pending) - before
	c.owed += len(s.pending) - before
	c.count()
	if len(s.pending) == 0 {
		s.sent()
	}
	s.wake()
	switch {
	case s.pending == nil && s.trailer:
		s.last()
	case s.pending != nil && s.window > 0 && !s.queued: // the connection's window is used up, or its output waits to be written
		s.queued = true
		if len(c.waiting) >= 2*max(maxCalls, len(c.calls)) { // half of them at least were reset
			c.waiting = slices.DeleteFunc(c.waiting, func(s *Call) bool { return s.over })
		}
		c.waiting = append(c.waiting, s)
	}
}

// last sends the trailer. The caller holds mu.
func (s *Call) last() {
	c := s.conn
	if s.request.page {
		c.out = appendFrame(c.out, http2.FrameData, http2.FlagDataEndStream, s.id, 0)
	} else {
		s.sendStatus()
	}
	if !s.received {
		c.out = appendReset(c.out, s.id, http2.ErrCodeNo)
		c.cut(s.id, false)
	}
	s.over = true
	s.yield()
	s.drop() // what came while the answer waited for a window
	delete(c.calls, s.id)
	if s.cancel != nil {
		s.cancel()
	}
	if c.draining {
		c.endIfIdle()
	}
}

// sendStatus sends the fields that end a call. The caller holds mu.
func (s *Call) sendStatus() {
	c := s.conn
	block := [64]byte{}
	b := block[:0]
	if !s.headed { // a call without messages has its status in the header
		s.headed = true
		b = appendMD(c.answers.header(b), s.header)
	}
	if s.status == nil {
		b = c.answers.okay(b)
	} else {
		b = c.answers.status(b, s.status)
	}
	c.block(s.id, appendMD(b, s.trailers), http2.FlagHeadersEndStream)
}

// SetHeader, SendHeader and SetTrailer set metadata of the answer.
func (s *Call) SetHeader(md metadata.MD) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.headed || s.over {
		return status.Error(codes.Internal, "the header has been sent")
	}
	if len(md) > 0 {
		s.header = metadata.Join(s.header, md)
	}
	return nil
}

// SendHeader sends the header now.
func (s *Call) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	s.head()
	c.work.Signal()
	return nil
}

// SetTrailer adds to what comes with the status.
func (s *Call) SetTrailer(md metadata.MD) {
	if len(md) == 0 {
		return
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.trailers = metadata.Join(s.trailers, md)
}

// Context ends with the call.
func (s *Call) Context() context.Context { return s.ctx }

// SendMsg sends a message. It waits while much waits for the client's window, until the handler has returned. The message
// of a unary call leaves with its status.
func (s *Call) SendMsg(m any) error {
	if s.unary && !s.request.page {
		if m, is := m.(Unmade); is {
			if err := s.Reserve(m.Size); err != nil {
				return err
			}
		}
		if err := s.takeTurn(func() int { return s.uncounted(m) }, 0, nil); err != nil {
			return err
		}
	}
	data, err := s.encode(m)
	if err != nil {
		return status.Errorf(codes.Internal, "an answer cannot be encoded: %v", err)
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over || s.trailer {
		free(data)
		return s.lost()
	}
	s.head()
	c.held += len(data)
	c.charge(len(data) - s.reserved.answered) // at once: others wait for what is freed
	s.reserved.answered = 0
	s.enqueue(data)
	if s.unary {
		return nil
	}
	s.pump()
	s.pace()
	if s.over || s.trailer {
		return s.lost()
	}
	return nil
}

// encode returns an encoded message behind its prefix, in a buffer of the pool.
func (s *Call) encode(m any) ([]byte, error) {
	data := newBuffer(prefixBytes + size(m))
	encoded, err := s.conn.server.o.Codec.Append(data[:prefixBytes], m)
	if err != nil {
		free(data)
		return nil, err
	}
	if s.request.compressed() && len(encoded) > prefixBytes {
		defer free(encoded)
		return s.compress(encoded[prefixBytes:])
	}
	appendPrefix(encoded[:0], len(encoded)-prefixBytes)
	return encoded, nil
}

// compress returns a message behind its prefix, compressed as the requests are.
func (s *Call) compress(message []byte) ([]byte, error) {
	out := new(bytes.Buffer)
	out.Write(make([]byte, prefixBytes))
	w, err := encoding.GetCompressor(s.request.encoding).Compress(out)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(message); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	data := out.Bytes()
	appendPrefix(data[:0], len(data)-prefixBytes)
	data[0] = isCompressed
	return data, nil
}

// enqueue has encoded messages wait for a window. It takes their buffer. The caller holds mu.
func (s *Call) enqueue(messages []byte) {
	if len(s.pending) == 0 {
		s.pending, s.buffer = messages, messages
		return
	}
	s.pending = append(s.pending, messages...)
	free(messages)
}

// sent gives back the buffer of messages that nobody waits for any more. The caller holds mu.
func (s *Call) sent() {
	free(s.buffer)
	s.pending, s.buffer = nil, nil
}

// uncounted returns the size of an answer that exists already, without what was counted when it was received.
func (s *Call) uncounted(m any) int {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return max(size(m)-s.reserved.answered, 0)
}

// size returns the size of a message that exists already.
func size(m any) int {
	switch m := m.(type) {
	case interface{ Size() int }:
		return m.Size()
	case proto.Message:
		return proto.Size(m)
	}
	return waitingBytes
}

// pace waits while much waits for the client and the handler has not returned. The caller holds mu.
func (s *Call) pace() {
	c := s.conn
	for (len(s.pending) > sendBuffer || len(c.out) > maxOutputBytes) && !s.over && !s.trailer {
		if len(s.pending) > sendBuffer {
			s.changed.Wait()
		} else {
			c.written.Wait()
		}
	}
}

// lost is the error of a call that was reset.
func (s *Call) lost() error {
	if err := s.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Canceled, "the call has ended")
}

// RecvMsg receives a message. io.EOF: there are no more.
func (s *Call) RecvMsg(m any) error {
	var prefix [prefixBytes]byte
	if n, err := s.receive(prefix[:]); err != nil {
		if errors.Is(err, io.EOF) && n > 0 {
			err = errTorn
		}
		return err
	}
	n := messageBytes(prefix[:])
	limit := s.conn.server.o.MaxMessageBytes
	if n > limit {
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", n, limit)
	}
	if prefix[0] > isCompressed {
		return status.Errorf(codes.Internal, "grpc: received unexpected payload format %d", prefix[0])
	}
	if prefix[0] == isCompressed {
		n = limit // of what it may become
	}
	if err := s.reserve(n); err != nil {
		return err
	}
	message, err := s.message(messageBytes(prefix[:]), n > smallBytes)
	if err != nil {
		return err
	}
	if prefix[0] == isCompressed {
		if message, err = s.decompress(message); err != nil {
			return err
		}
	}
	if err := s.conn.server.o.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, m); err != nil {
		return status.Errorf(codes.Internal, "a request cannot be decoded: %v", err)
	}
	return nil
}

var errTorn = status.Error(codes.Internal, "a request ends before its length")

// firstPart is how much memory the length of a message takes before the message arrives.
const firstPart = 4 << 10

// message receives as many bytes. They take memory as they arrive. A large message has to arrive in time.
func (s *Call) message(n int, large bool) ([]byte, error) {
	if large {
		defer s.expire(s.conn.server.o.ReceiveTimeout)()
	}
	var message []byte
	for len(message) < n {
		part := min(n-len(message), max(firstPart, len(message), len(s.whole)))
		message = append(message, make([]byte, part)...)
		if large || !s.unary { // a small request of a unary call is counted as a whole
			s.charge(part)
		}
		if _, err := s.receive(message[len(message)-part:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = errTorn
			}
			return nil, err
		}
	}
	return message, nil
}

// receive fills b.
func (s *Call) receive(b []byte) (n int, err error) {
	if n = copy(b, s.whole); n > 0 {
		s.whole = s.whole[n:]
	}
	if n == len(b) {
		return n, nil
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(b) {
		switch {
		case s.over:
			return n, s.lost()
		case s.overdue, s.reserved.late != nil && *s.reserved.late:
			return n, errLate
		case len(s.body) > 0:
			n += s.take(b[n:])
		case s.received:
			return n, io.EOF
		default:
			s.changed.Wait()
		}
	}
	return n, nil
}

// take takes as much of what was received as fits in b. The caller holds mu.
func (s *Call) take(b []byte) int {
	n := copy(b, s.body)
	if s.body = s.body[n:]; len(s.body) == 0 {
		s.body = nil
	}
	s.conn.charge(-n)
	s.took(n)
	return n
}

// decompress decodes a message as the call's header says.
func (s *Call) decompress(message []byte) ([]byte, error) {
	if !s.request.compressed() {
		return nil, status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	reader, err := encoding.GetCompressor(s.request.encoding).Decompress(bytes.NewReader(message))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "a request cannot be decompressed: %v", err)
	}
	return s.readAll(reader)
}

// readAll reads what a message becomes. It takes memory as it does.
func (s *Call) readAll(reader io.Reader) (message []byte, err error) {
	limit := s.conn.server.o.MaxMessageBytes
	for free := 0; ; {
		if free == 0 {
			free = min(limit+1-len(message), max(firstPart, len(message)))
			s.charge(free)
			message = slices.Grow(message, free)
		}
		n, err := reader.Read(message[len(message) : len(message)+free])
		message, free = message[:len(message)+n], free-n
		switch {
		case len(message) > limit:
			return nil, status.Errorf(codes.ResourceExhausted,
				"grpc: received message after decompression larger than max %d", limit)
		case errors.Is(err, io.EOF):
			return message, nil
		case err != nil:
			return nil, status.Errorf(codes.Internal, "a request cannot be decompressed: %v", err)
		}
	}
}
