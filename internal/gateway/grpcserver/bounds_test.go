package grpcserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestAllMemoryIsCounted: beginnings of requests, a header that does not end, output that nobody reads and a decompressed
// request count.
func TestAllMemoryIsCounted(t *testing.T) {
	const least = 200 << 10
	for name, hold := range map[string]func(*testing.T, *tested){
		"beginnings of requests": func(t *testing.T, s *tested) {
			c := connect(t, s.address)
			const part = 10 << 10 // below smallBytes: no handler takes it
			for i := range uint32(least/part + 1) {
				if err := errors.Join(c.open(2*i+1, echo, false), c.WriteData(2*i+1, false, make([]byte, part))); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a header that does not end": func(t *testing.T, s *tested) {
			c := connect(t, s.address)
			err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.header(echo)})
			for range least / firstFrame * 2 {
				err = errors.Join(err, c.WriteContinuation(1, false, make([]byte, firstFrame)))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"output that nobody reads": func(t *testing.T, s *tested) {
			c := connect(t, s.address)
			if err := c.Conn.(*net.TCPConn).SetReadBuffer(1); err != nil { // the kernel's least: most of the output stays here
				t.Fatal(err)
			}
			pings := bytes.Repeat(frames(func(w *http2.Framer) { w.WritePing(false, [8]byte{}) }), 1000)
			go func() {
				for err := error(nil); err == nil; { // it fails when the server ends
					_, err = c.Conn.Write(pings)
				}
			}()
		},
		"a decompressed request": func(t *testing.T, s *tested) {
			in := wrapperspb.Bytes(make([]byte, 2*least))
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			go func() {
				var out wrapperspb.BytesValue
				_ = dial(t, s.address).Invoke(ctx, waits, in, &out, grpc.UseCompressor(gzip.Name)) // it ends with the test
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			hold(t, s)
			s.awaitMemory(t, func(used int) bool { return used >= least })
		})
	}
}

// TestRequestsThatDoNotArrive: a unary call ends if its request does not arrive in time, whatever its length.
func TestRequestsThatDoNotArrive(t *testing.T) {
	s := startServer(t, func(o *Options) { o.ReceiveTimeout = 2 * time.Millisecond })
	for name, begin := range map[string][]byte{
		"nothing": nil, "a small one": appendPrefix(nil, 100), "a part of its length": {0, 0},
	} {
		c := connect(t, s.address)
		if err := errors.Join(c.open(1, echo, false), c.WriteData(1, false, begin)); err != nil {
			t.Fatal(err)
		}
		if _, code := c.answer(); code != fmt.Sprint(int(codes.ResourceExhausted)) {
			t.Errorf("%s: status %s", name, code)
		}
		s.await(t, func(c *conn) bool { return (&Connection{c}).Idle() })
		c.Conn.Close()
	}
}

// TestRequestThatAHandlerWaitsFor: so does a call that has a handler because its connection's window is nearly used up.
func TestRequestThatAHandlerWaitsFor(t *testing.T) {
	s := startServer(t, func(o *Options) { o.ReceiveTimeout = time.Hour })
	c := connect(t, s.address)
	if err := c.open(1, echo, false); err != nil {
		t.Fatal(err)
	}
	var served *conn
	s.await(t, func(c *conn) bool {
		served = c
		c.mu.Lock()
		defer c.mu.Unlock()
		call := c.calls[1]
		if call == nil || call.started {
			return call != nil
		}
		call.started = true
		go call.start()
		return true
	})
	for range lateSteps + 1 {
		served.overdue()
	}
	if _, code := c.answer(); code != fmt.Sprint(int(codes.ResourceExhausted)) {
		t.Errorf("status %s", code)
	}
}

// TestHeaderThatDoesNotEnd: the connection ends if a header does not end in time.
func TestHeaderThatDoesNotEnd(t *testing.T) {
	s := startServer(t, func(o *Options) { o.ReceiveTimeout = time.Millisecond })
	c := connect(t, s.address)
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.header(echo)}); err != nil {
		t.Fatal(err)
	}
	if f, err := c.next(); err == nil {
		t.Errorf("%v", f)
	}
	var timeout net.Error
	if _, err := c.Conn.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection goes on: %v", err)
	}
}

// TestHandlerThatPanics: one call cannot end the process. Its client gets the code Internal, and the connection goes on.
func TestHandlerThatPanics(t *testing.T) {
	s := startServer(t, func(o *Options) {
		handle := o.Handle
		o.Handle = func(method string, s grpc.ServerStream) error {
			if method == fails {
				panic("a bug")
			}
			return handle(method, s)
		}
	})
	conn, ctx := dial(t, s.address), within(t)
	var out wrapperspb.BytesValue
	if err := conn.Invoke(ctx, fails, wrapperspb.Bytes(nil), &out); status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
	if err := conn.Invoke(ctx, echo, wrapperspb.Bytes(nil), &out); err != nil {
		t.Errorf("the call after it: %v", err)
	}
}

// TestReaderThatPanics: a panic while a frame is taken ends its connection alone, also if it comes from a function that
// holds the connection's lock.
func TestReaderThatPanics(t *testing.T) {
	s := startServer(t, func(o *Options) {
		begin := o.Begin
		o.Begin = func(c *Call, method string, message []byte) bool {
			if method == fails {
				panic("a bug")
			}
			return begin(c, method, message)
		}
		unary := o.Unary
		o.Unary = func(method string) bool { return method == fails || unary(method) }
	})
	other, ctx := dial(t, s.address), within(t)
	var out wrapperspb.BytesValue
	for name, send := range map[string]func(c *raw) error{
		"without the lock": func(c *raw) error { return c.call(1, fails, 0) },
		"with the lock": func(c *raw) error {
			if err := c.WritePing(false, [8]byte{}); err != nil {
				return err
			}
			if _, err := c.next(); err != nil { // the connection is known
				return err
			}
			s.any(func(c *conn) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.last == 0 && len(c.calls) == 0 {
					c.last = 1
					c.calls[1] = &Call{over: true, ours: callWindow} // without a connection
				}
				return false
			})
			return c.WriteDataPadded(1, false, nil, make([]byte, 1))
		},
	} {
		c := connect(t, s.address)
		if err := send(c); err != nil {
			t.Fatal(err)
		}
		f, err := c.next()
		if away, ok := f.(*http2.GoAwayFrame); !ok || away.ErrCode != http2.ErrCodeInternal {
			t.Errorf("%s: %v, %v", name, f, err)
		}
		if f, err := c.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection goes on: %v, %v", name, f, err)
		}
		if err := other.Invoke(ctx, echo, wrapperspb.Bytes(nil), &out); err != nil {
			t.Errorf("%s: another connection's call: %v", name, err)
		}
	}
}

// TestPartsThatPanic: a panic in the writer of a connection, in a timer, when it is evicted, when it ends, or after a
// handler ends the connection alone, and the server ends too.
func TestPartsThatPanic(t *testing.T) {
	ping := func(c *raw) error { return c.WritePing(false, [8]byte{}) }
	for name, part := range map[string]struct {
		plant func(c *conn) // holds mu
		then  func(c *conn) // without mu
		send  func(c *raw) error
	}{
		"the writer": {plant: func(c *conn) { c.waiting = append(c.waiting, new(Call)) }, send: ping}, // without a connection
		"a timer": {
			plant: func(c *conn) { c.calls[1] = &Call{unary: true, age: lateSteps} },
			then:  func(c *conn) { c.after(0, c.overdue) },
		},
		"the eviction": {plant: func(c *conn) { c.calls[1] = new(Call) }, then: func(c *conn) { go c.evict() }},
		"the end":      {plant: func(c *conn) { c.calls[1] = new(Call) }, send: (*raw).Close},
		"a handler":    {plant: func(*conn) {}, send: func(c *raw) error { return c.call(1, fails, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, func(o *Options) {
				handle := o.Handle
				o.Handle = func(method string, s grpc.ServerStream) error {
					if method == fails {
						call := s.(*Call)
						call.conn.mu.Lock()
						call.turn, call.conn.turns = true, nil
						call.conn.mu.Unlock()
					}
					return handle(method, s)
				}
			})
			c := connect(t, s.address)
			if err := ping(c); err != nil {
				t.Fatal(err)
			}
			if _, err := c.next(); err != nil { // the connection is known
				t.Fatal(err)
			}
			var planted *conn
			s.any(func(served *conn) bool {
				planted = served
				served.mu.Lock()
				part.plant(served)
				served.mu.Unlock()
				if part.then != nil {
					part.then(served)
				}
				return false
			})
			if part.send != nil {
				if err := part.send(c); err != nil {
					t.Fatal(err)
				}
			}
			for err := error(nil); err == nil; {
				_, err = c.next()
			}
			var out wrapperspb.BytesValue
			if err := dial(t, s.address).Invoke(within(t), echo, wrapperspb.Bytes(nil), &out); err != nil {
				t.Errorf("another connection's call: %v", err)
			}
			for s.any(func(c *conn) bool { return c == planted }) { // Stop would close it, outside what contains a panic
				runtime.Gosched()
			}
		})
	}
}

// TestReceivingAfterTheHandler: what a stream receives after its handler has ended, on another goroutine, takes nothing.
func TestReceivingAfterTheHandler(t *testing.T) {
	ended, received := make(chan *Call, 1), make(chan error, 1)
	s := startServer(t, smallLimit, func(o *Options) {
		o.Handle = func(_ string, s grpc.ServerStream) error {
			call := s.(*Call)
			go func() {
				call := <-ended
				for { // until handle has ended
					call.conn.mu.Lock()
					active := call.conn.active
					call.conn.mu.Unlock()
					if active == 0 {
						break
					}
					runtime.Gosched()
				}
				received <- call.reserve(largeBytes / 2)
				call.charge(largeBytes)
				call.holds(largeBytes)
			}()
			ended <- call
			return nil
		}
	})
	c := connect(t, s.address)
	if err := c.open(1, both, false); err != nil {
		t.Fatal(err)
	}
	if err := <-received; err == nil {
		t.Error("memory is given to a call that has ended")
	}
	s.await(t, func(c *conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.large.TryAcquire(largeOfConn * largeBytes) {
			t.Fatal("the call has memory")
		}
		if c.account.used+c.owed-c.counted != 0 {
			t.Fatalf("%d bytes are counted", c.account.used+c.owed-c.counted)
		}
		return true
	})
}

// TestManySettingsOverTime: a connection may change its settings as often as it likes, if not too often at a time.
func TestManySettingsOverTime(t *testing.T) {
	var r rate
	now := time.Unix(0, 0)
	for i := range 10 * maxSettings {
		if now = now.Add(settingsTime / maxSettings); r.above(maxSettings, settingsTime, now) {
			t.Fatalf("the limit is reached at number %d", i)
		}
	}
	for range maxSettings {
		r.above(maxSettings, settingsTime, now)
	}
	if !r.above(maxSettings, settingsTime, now) {
		t.Error("a connection may change its settings without a limit")
	}
}

// TestWhoHoldsMost: a connection that has moved as much as it holds does not count as one that has held it all the time.
func TestWhoHoldsMost(t *testing.T) {
	ended := make(chan string, 2)
	m := NewMemory(0)
	busy := m.join("busy", func() { ended <- "busy" })
	stuck := m.join("stuck", func() { ended <- "stuck" })
	for _, a := range []*account{busy, stuck} {
		a.add(9 << 20)
		a.since = a.since.Add(-time.Hour)
	}
	for range 10 {
		busy.add(-1 << 20)
		busy.add(1 << 20)
	}
	busy.add(3 << 20)
	m.mu.Lock()
	m.evict(m.used - 1)
	m.mu.Unlock()
	if got := <-ended; got != "stuck" {
		t.Errorf("the connection that ends is the %s one", got)
	}
}

// TestCallsWithinTheProcess: the connection that carries calls of many clients has no limit of calls of its own.
func TestCallsWithinTheProcess(t *testing.T) {
	s := startServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l) // it ends with the server
	c := connect(t, l.Addr().String())
	const calls = maxCalls + 1
	for i := range uint32(calls) {
		if err := c.open(2*i+1, both, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.call(2*calls+1, echo, 0); err != nil {
		t.Fatal(err)
	}
	if _, code := c.answer(); code != "0" {
		t.Errorf("status %s", code)
	}
}

// TestAnswersThatOthersWaitFor: an answer is received at once although its client has not read others, and counts. The
// answer of a call whose handler has ended does not.
func TestAnswersThatOthersWaitFor(t *testing.T) {
	const answers = 4 * maxAnswers
	sent := make(chan struct{})
	end := sync.OnceFunc(func() { close(sent) }) // of the handlers
	calls := make(chan *Call, answers)
	s := startServer(t, func(o *Options) {
		o.Handle = func(_ string, stream grpc.ServerStream) error {
			call, answer := stream.(*Call), new(wrapperspb.BytesValue)
			err := call.ReceiveNow(call.Context(), answer, func() error {
				answer.Value = bytes.Repeat([]byte{'x'}, bigBytes)
				return nil
			})
			calls <- call
			<-sent
			return err
		}
	})
	defer end()
	c := connect(t, s.address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	callBig(t, c, answers)
	var one *Call
	for range answers {
		one = <-calls
	}
	s.awaitMemory(t, func(used int) bool { return used >= answers*bigBytes-chargeStep })
	end()
	s.awaitMemory(t, func(used int) bool { return used <= chargeStep })
	err := one.ReceiveNow(t.Context(), wrapperspb.String(strings.Repeat("x", bigBytes)), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.awaitMemory(t, func(used int) bool { return used <= chargeStep })
}

// TestStreamsTakeTurns: an answer of a stream that is received as a whole waits for its turn, as that of a unary call.
func TestStreamsTakeTurns(t *testing.T) {
	received := make(chan struct{}, 2*maxAnswers)
	s := startServer(t, func(o *Options) {
		o.Handle = func(_ string, stream grpc.ServerStream) error {
			call, answer := stream.(*Call), wrapperspb.Bytes(make([]byte, bigBytes))
			err := call.Receive(call.Context(), answer, func() error { received <- struct{}{}; return nil })
			if err != nil {
				return err
			}
			return call.SendMsg(answer)
		}
	})
	c := connect(t, s.address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range uint32(2 * maxAnswers) {
		if err := c.open(2*i+1, both, true); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitMemory(t, func(used int) bool { return used >= maxAnswers*(bigBytes+waitingBytes)-2*chargeStep })
	if n := len(received); n != maxAnswers {
		t.Errorf("%d answers were received", n)
	}
}
