package grpcserver

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// largeBytes is the limit of the tests below.
const largeBytes = 64 << 10

func smallLimit(o *Options) { o.MaxMessageBytes = largeBytes }

// TestTooLargeRequest refuses a request by its length, as grpc-go does.
func TestTooLargeRequest(t *testing.T) {
	s := startServer(t, smallLimit)
	conn, ctx := dial(t, s.address), within(t)
	var out wrapperspb.BytesValue
	for _, method := range []string{echo, quick} {
		err := conn.Invoke(ctx, method, wrapperspb.Bytes(make([]byte, largeBytes)), &out)
		want := fmt.Sprintf("grpc: received message larger than max (%d vs. %d)", largeBytes+4, largeBytes)
		if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != want {
			t.Errorf("%s: %v, want %s", method, err, want)
		}
	}
	c := connect(t, s.address) // it announces a request and sends nothing of it
	if err := errors.Join(c.open(1, echo, false), c.WriteData(1, false, appendPrefix(nil, 200<<20))); err != nil {
		t.Fatal(err)
	}
	if _, code := c.answer(); code != fmt.Sprint(int(codes.ResourceExhausted)) {
		t.Errorf("status %s", code)
	}
	if err := conn.Invoke(ctx, echo, wrapperspb.Bytes(make([]byte, largeBytes-100)), &out); err != nil {
		t.Error(err)
	}
}

// TestHalfSentRequests: what requests that do not arrive may take is bounded. Small requests of the same connection are
// answered meanwhile, and large ones of others.
func TestHalfSentRequests(t *testing.T) {
	s := startServer(t, smallLimit)
	c := connect(t, s.address)
	const calls = 4 * largeOfConn
	for i := range uint32(calls) {
		err := errors.Join(c.open(2*i+1, both, false), c.WriteData(2*i+1, false, appendPrefix(nil, largeBytes)))
		if err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, func(c *conn) bool { return !c.large.TryAcquire(1) })
	if err := c.call(2*calls+1, echo, 0); err != nil {
		t.Fatal(err)
	}
	if _, code := c.answer(); code != "0" {
		t.Errorf("status of a small request: %s", code)
	}
	var out wrapperspb.BytesValue
	large := wrapperspb.Bytes(make([]byte, largeBytes/2))
	if err := dial(t, s.address).Invoke(within(t), echo, large, &out); err != nil {
		t.Error(err)
	}
	c.Conn.Close()
	s.awaitMemory(t, func(used int) bool { return used <= chargeStep }) // of the other connection
}

// await waits until something holds for a connection.
func (s *tested) await(t *testing.T, holds func(*conn) bool) {
	t.Helper()
	ctx := within(t)
	for !s.any(holds) {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		runtime.Gosched()
	}
}

// any reports whether something holds for a connection. holds may end the test.
func (s *tested) any(holds func(*conn) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if holds(c) {
			return true
		}
	}
	return false
}

// TestRequestThatDoesNotArrive: a large request that does not arrive ends, and so does one that waits for memory.
func TestRequestThatDoesNotArrive(t *testing.T) {
	s := startServer(t, smallLimit, func(o *Options) { o.ReceiveTimeout = time.Millisecond })
	c := connect(t, s.address)
	const calls = largeOfConn + 1
	for i := range uint32(calls) {
		err := errors.Join(c.open(2*i+1, both, false), c.WriteData(2*i+1, false, appendPrefix(nil, largeBytes)))
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := make(map[uint32]bool)
	for len(ended) < calls {
		f, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		h, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			continue // RST_STREAM: the client need not send the rest
		}
		ended[h.StreamID] = true
		for _, field := range h.Fields {
			if field.Name == statusField && field.Value != fmt.Sprint(int(codes.ResourceExhausted)) {
				t.Errorf("call %d: status %s", h.StreamID, field.Value)
			}
		}
	}
}

// TestManyLargeHeaders: the headers of calls under way are bounded, and not only their number.
func TestManyLargeHeaders(t *testing.T) {
	s := startServer(t)
	c := connect(t, s.address)
	const headerBytes = 8 << 10
	go func() {
		for id := uint32(1); ; id += 2 {
			block := c.header(waits, "mark", strings.Repeat("x", headerBytes))
			err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
			if err != nil {
				return // the test has ended
			}
		}
	}()
	f, err := c.next()
	r, ok := f.(*http2.RSTStreamFrame)
	if err != nil || !ok || r.ErrCode != http2.ErrCodeRefusedStream || r.StreamID > 2*maxHeadersBytes/headerBytes+1 {
		t.Errorf("%v, %v", f, err)
	}
	c.Conn.Close()
}

// TestDeadlineOfAPage: a handler of pages can bound how long it waits for the body.
func TestDeadlineOfAPage(t *testing.T) {
	result := make(chan error, 1)
	s := startServer(t, func(o *Options) {
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			err := control.SetReadDeadline(time.Now())
			if err == nil {
				_, err = r.Body.Read(make([]byte, 1))
			}
			result <- errors.Join(err, control.SetReadDeadline(time.Time{}))
		})
	})
	c := connect(t, s.address)
	block := c.fields(":method", "POST", ":scheme", "http", ":path", "/page")
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	c.answer()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("reading the body: %v", err)
	}
}

// awaitMemory waits until the memory in use is as wanted.
func (s *tested) awaitMemory(t *testing.T, wanted func(used int) bool) {
	t.Helper()
	for ctx := within(t); ; runtime.Gosched() {
		m := s.o.Memory
		m.mu.Lock()
		used := m.used
		m.mu.Unlock()
		if wanted(used) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d bytes are in use", used)
		}
	}
}

// TestAnnouncedRequests: however many connections announce large requests and send their beginnings, a large request of
// another connection is received: memory is taken as bytes arrive.
func TestAnnouncedRequests(t *testing.T) {
	s := startServer(t, smallLimit)
	const conns = 24
	for range conns {
		c := connect(t, s.address)
		for i := range uint32(largeOfConn) {
			err := errors.Join(c.open(2*i+1, both, false),
				c.WriteData(2*i+1, false, append(appendPrefix(nil, largeBytes), make([]byte, smallBytes-prefixBytes)...)))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s.awaitMemory(t, func(used int) bool { return used >= conns*largeOfConn*smallBytes/2 })
	var out wrapperspb.BytesValue
	large := wrapperspb.Bytes(make([]byte, largeBytes/2))
	if err := dial(t, s.address).Invoke(within(t), echo, large, &out); err != nil {
		t.Error(err)
	}
}

// TestAnswersOfManyRanges: while an answer of many ranges is received, none other of several ranges is, and all others may
// be.
func TestAnswersOfManyRanges(t *testing.T) {
	type free struct{ answers, ranges bool } // slots for all
	ranges, seen := make(chan int, 1), make(chan free, 1)
	all := func(w *semaphore.Weighted) bool {
		got := w.TryAcquire(serverAnswers)
		if got {
			w.Release(serverAnswers)
		}
		return got
	}
	s := startServer(t, func(o *Options) {
		o.Handle = func(_ string, stream grpc.ServerStream) error {
			call := stream.(*Call)
			call.Reads(<-ranges)
			return call.ReceiveNow(call.Context(), new(wrapperspb.BytesValue), func() error {
				server := call.conn.server
				seen <- free{all(server.answers), all(server.ranges)}
				return nil
			})
		}
	})
	c := connect(t, s.address)
	for i, step := range []struct {
		ranges int
		want   free
	}{{0, free{false, true}}, {1, free{false, true}}, {2, free{true, false}}, {10 * serverAnswers, free{true, false}}} {
		ranges <- step.ranges
		if err := c.call(uint32(2*i+1), echo, 0); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != step.want {
			t.Errorf("%d ranges: free %+v, want %+v", step.ranges, got, step.want)
		}
		c.answer()
	}
}
