package grpcserver

import (
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// begin takes the first frame of a call.
func (c *conn) begin(f *http2.HeadersFrame) error {
	c.opened = opening{f.StreamID, f.StreamEnded(), f.HasPriority() && f.Priority.StreamDep == f.StreamID}
	return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

// fragment takes a part of a header. One that has not ended counts, and has to end in time.
func (c *conn) fragment(part []byte, ended bool) (err error) {
	err = c.in.add(part)
	switch {
	case err != nil:
	case !ended && !c.heading:
		c.heading, err = true, c.net.SetReadDeadline(time.Now().Add(c.server.o.ReceiveTimeout))
	case ended && c.heading:
		c.heading, err = false, c.net.SetReadDeadline(time.Time{})
	}
	if err != nil || !ended {
		c.countHeader(len(c.in.block))
		return err
	}
	return c.headers()
}

// countHeader counts the bytes of a header that has not ended.
func (c *conn) countHeader(bytes int) {
	if bytes == c.beginning {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charge(bytes - c.beginning)
	c.beginning = bytes
}

// headers begins a call whose header is complete, or ends a request with its trailers.
func (c *conn) headers() error {
	r, err := c.in.end()
	c.countHeader(0)
	if err != nil {
		return err
	}
	unary := !r.page && c.server.o.Unary(r.method)
	call, start, complete, err := c.enter(r, unary)
	switch {
	case start:
		call.start()
	case complete:
		c.received(call, nil)
	}
	return err
}

// enter returns the call that a header begins, or whose request it ends, and what follows: the handler starts, or the
// request is complete, or neither.
func (c *conn) enter(r *request, unary bool) (call *Call, start, complete bool, err error) {
	id, end, malformed := c.opened.id, c.opened.end, c.opened.itself || r.malformed
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%2 == 0 || id <= c.last {
		call, err = c.again(id, r.trailers && !malformed)
		return call, false, call != nil, err
	}
	c.last = id
	c.note(id, closedByBoth)
	full := !c.trusted && (max(c.active, len(c.calls)) >= c.server.o.MaxCalls || c.headerBytes > maxHeadersBytes)
	page := r.page && c.server.o.Page != nil
	switch {
	case malformed || r.trailers:
		c.refuseStream(id, http2.ErrCodeProtocol, end)
		return nil, false, false, nil
	case c.draining || c.closed || full:
		c.refuseStream(id, http2.ErrCodeRefusedStream, end)
		return nil, false, false, nil
	case r.refused != nil && !page:
		c.refuse(id, r.refused, end)
		return nil, false, false, nil
	}
	call = &Call{
		conn: c, id: id, request: r, window: c.initial, ours: callWindow, unary: unary,
		started: !unary && (!end || page), received: end, hasLength: r.length >= 0, expected: r.length,
	}
	if end && !call.complete() {
		c.refuseStream(id, http2.ErrCodeProtocol, end)
		return nil, false, false, nil
	}
	c.calls[id] = call
	c.active++
	c.headerBytes += r.bytes
	c.charge(r.bytes)
	if unary && !end {
		c.expect()
	}
	return call, call.started, end && !call.started, nil
}

// refuseStream resets a stream whose header begins no call. The caller holds mu.
func (c *conn) refuseStream(id uint32, code http2.ErrCode, ended bool) {
	c.out = appendReset(c.out, id, code)
	c.cut(id, ended)
	c.work.Signal()
}

// again takes a header that begins no call: the trailers of a request, whose call it returns, or what is wrong. The caller
// holds mu.
func (c *conn) again(id uint32, trailers bool) (*Call, error) {
	end, call := c.opened.end, c.calls[id]
	switch {
	case call != nil && call.received:
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	case call != nil && end && trailers && call.complete():
		call.received = true
		return call, nil
	case call != nil:
		return nil, http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	}
	switch was := c.was(id); {
	case id%2 == 0 || was == unknown:
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	case was == cutOff && end: // the rest of a request that was answered before its end
		return nil, nil
	}
	return nil, http2.ConnectionError(http2.ErrCodeStreamClosed)
}

// refuse answers a request that is no call. The caller holds mu.
func (c *conn) refuse(id uint32, r *refusal, ended bool) {
	block := appendField(c.answers.begin(nil), justLiteral, ":status", strconv.Itoa(r.http))
	block = appendField(block, justLiteral, "content-type", grpcType)
	block = c.answers.status(block, r.status)
	c.block(id, block, http2.FlagHeadersEndStream)
	if !ended {
		c.out = appendReset(c.out, id, http2.ErrCodeNo)
	}
	c.cut(id, ended)
	c.work.Signal()
}

// What is known of a call that has ended.
const (
	unknown      = iota // too old, or never opened
	closedByBoth        // or reset by the client
	cutOff              // by the server, before the request had ended
)

// recentCalls is how many ended calls are known.
const recentCalls = 64

// note notes what becomes of a call. The caller holds mu.
func (c *conn) note(id uint32, how uint32) { c.recent[id/2%recentCalls] = id<<2 | how }

// was returns what became of a call. The caller holds mu.
func (c *conn) was(id uint32) uint32 {
	if noted := c.recent[id/2%recentCalls]; noted>>2 == id&(1<<30-1) {
		return noted & 3
	}
	return unknown
}

// cut notes a call that the server ends, unless its request has ended. The caller holds mu.
func (c *conn) cut(id uint32, ended bool) {
	if !ended {
		c.note(id, cutOff)
	}
}

// announced counts bytes of the request, and reports whether they are within the length that it announced.
func (s *Call) announced(n int, last bool) bool {
	if !s.hasLength {
		return true
	}
	if s.expected < n || last && s.expected > n {
		return false
	}
	s.expected -= n
	return true
}

// complete reports whether the request has as many bytes as it announced. The caller holds mu.
func (s *Call) complete() bool { return !s.hasLength || s.expected == 0 }

// data takes a part of a call's requests.
func (c *conn) data(f *http2.DataFrame) error {
	call, start, complete, err := c.takeData(f)
	switch {
	case start:
		call.start()
	case complete:
		c.received(call, f.Data())
	}
	return err
}

// takeData keeps a part of a call's requests, and returns what follows: the handler starts, or the request is complete with
// this part, which was not kept, or neither.
func (c *conn) takeData(f *http2.DataFrame) (call *Call, start, complete bool, err error) {
	length, data := int(f.Length), f.Data()
	c.mu.Lock()
	defer c.mu.Unlock()
	call = c.calls[f.StreamID]
	switch {
	case length > c.ours:
		return nil, false, false, http2.ConnectionError(http2.ErrCodeFlowControl)
	case call == nil && f.StreamID > c.last:
		return nil, false, false, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.ours -= length
	if code := c.misplaced(call, f); code != http2.ErrCodeNo {
		c.credit(length)
		return nil, false, false, http2.StreamError{StreamID: f.StreamID, Code: code}
	}
	if call == nil { // it has ended
		c.credit(length)
		return nil, false, false, nil
	}
	call.ours -= length
	call.took(length - len(data)) // padding
	if call.unary && !call.started && f.StreamEnded() {
		call.received = true
		call.took(len(data))
		return call, false, true, nil
	}
	call.body = append(call.body, data...)
	c.charge(len(data))
	// A large request is taken in parts. So is every request while the connection's window is nearly used up: it would
	// hold the beginnings of many, and the end of none.
	large := len(call.body) >= smallBytes || len(call.body) >= prefixBytes && messageBytes(call.body) > smallBytes
	start = !call.started && (large || c.ours < connWindow/4)
	call.started = call.started || start
	call.received = f.StreamEnded()
	call.wake()
	return call, start, false, nil
}

// misplaced returns what is wrong with a part of a call's requests. The caller holds mu. Nothing is wrong with one for a
// call that the server has ended.
func (c *conn) misplaced(call *Call, f *http2.DataFrame) http2.ErrCode {
	switch {
	case call == nil && c.was(f.StreamID) == closedByBoth:
		return http2.ErrCodeStreamClosed
	case call == nil:
		return http2.ErrCodeNo
	case !call.received && !call.announced(len(f.Data()), f.StreamEnded()):
		return http2.ErrCodeProtocol
	case call.received:
		return http2.ErrCodeStreamClosed
	case int(f.Length) > call.ours:
		return http2.ErrCodeFlowControl
	}
	return http2.ErrCodeNo
}

// received begins a call that has been received as a whole, or tells its handler. Data come behind what was received
// before.
func (c *conn) received(call *Call, data []byte) {
	data, waits := call.all(data)
	if !waits {
		return
	}
	if wrong := call.wrong(data); wrong != nil {
		call.Fail(wrong)
		call.Flush()
		return
	}
	begin := c.server.o.Begin
	if message, ok := only(data); ok && call.immediate() && begin != nil && begin(call, call.request.method, message) {
		return
	}
	if len(data) > 0 {
		call.whole = append([]byte(nil), data...)
	}
	call.start()
}

// all returns what was received of a call that waits for its whole request. If a handler has the call, all tells it that
// nothing follows.
func (s *Call) all(last []byte) (data []byte, waits bool) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.started {
		s.wake()
		return nil, false
	}
	if len(s.body) == 0 {
		return last, true
	}
	c.charge(-len(s.body))
	s.took(len(s.body))
	data, s.body = append(s.body, last...), nil
	return data, true
}

// immediate reports whether [Options].Begin may answer: it looks at no deadline, and compresses nothing.
func (s *Call) immediate() bool { return s.unary && s.request.timeout != 0 && !s.request.compressed() }

// wrong is what grpc-go answers to a unary call whose request is not one message.
func (s *Call) wrong(data []byte) error {
	switch {
	case !s.unary:
	case len(data) == 0:
		return status.Error(codes.Internal,
			"cardinality violation: received no request message from non-client-streaming RPC")
	case len(data) >= prefixBytes && len(data) > prefixBytes+messageBytes(data):
		return status.Error(codes.Internal,
			"cardinality violation: received multiple request messages for non-client-streaming RPC")
	}
	return nil
}

// prefixBytes is the length of what comes before each message: whether it is compressed, and its length.
const prefixBytes = 5

// isCompressed is the first byte of a message that is.
const isCompressed = 1

// only is the message in the data of a call, if there is one that is not compressed, and no other.
func only(data []byte) (message []byte, ok bool) {
	if len(data) < prefixBytes || data[0] != 0 || messageBytes(data) != len(data)-prefixBytes {
		return nil, false
	}
	return data[prefixBytes:], true
}

func messageBytes(prefix []byte) int {
	return int(prefix[1])<<24 | int(prefix[2])<<16 | int(prefix[3])<<8 | int(prefix[4])
}

// reset ends a call at once, as the client asked or, if it is to be told, because of an error.
func (c *conn) reset(id uint32, code http2.ErrCode, tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tell {
		if call := c.calls[id]; call != nil {
			c.cut(id, call.received)
		}
		c.out = appendReset(c.out, id, code)
		c.work.Signal()
	} else if c.was(id) == cutOff {
		c.note(id, closedByBoth) // nothing of the request comes any more
	}
	if call := c.calls[id]; call != nil {
		delete(c.calls, id)
		call.abort()
		if c.draining {
			c.endIfIdle()
		}
	}
}
