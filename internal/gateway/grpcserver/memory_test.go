package grpcserver

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// big is a method whose answer is larger than its request.
const big = "/test.T/Big"

const bigBytes = 256 << 10

// answerBig makes a server of big answers. made counts those that took memory.
func answerBig(memory int, made *atomic.Int64) func(*Options) {
	return func(o *Options) {
		handle := o.Handle
		o.Memory = NewMemory(memory)
		o.Handle = func(method string, s grpc.ServerStream) error {
			if method != big {
				return handle(method, s)
			}
			if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
				return err
			}
			answer := new(wrapperspb.BytesValue)
			err := s.(*Call).Receive(s.Context(), answer, func() error {
				made.Add(1)
				answer.Value = make([]byte, bigBytes)
				return nil
			})
			if err != nil {
				return err
			}
			return s.SendMsg(answer)
		}
	}
}

// callBig begins calls with big answers on a connection, which are not read.
func callBig(t *testing.T, c *raw, calls int) {
	t.Helper()
	for i := range uint32(calls) {
		if err := c.call(2*i+1, big, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadAnswers: of a client that reads nothing, no more than [maxAnswers] answers take memory, whatever its windows
// are, and those of the output. Other clients are answered.
func TestUnreadAnswers(t *testing.T) {
	const calls = 2000
	for name, settings := range map[string][]http2.Setting{
		"window 0":       {{ID: http2.SettingInitialWindowSize, Val: 0}},
		"socket is full": {{ID: http2.SettingInitialWindowSize, Val: maxWindow}},
	} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int64
			s := startServer(t, answerBig(0, &made))
			c := connect(t, s.address, settings...)
			if err := c.WriteWindowUpdate(0, maxWindow-firstWindow); err != nil {
				t.Fatal(err)
			}
			callBig(t, c, calls)
			s.await(t, func(c *conn) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.running == maxRunning && len(c.later) > 0 && c.held > (maxAnswers-1)*bigBytes ||
					len(c.out)+c.writing > maxOutputBytes
			})
			var out wrapperspb.BytesValue
			if err := dial(t, s.address).Invoke(within(t), big, wrapperspb.Bytes(nil), &out); err != nil || len(out.Value) != bigBytes {
				t.Errorf("another client: %d bytes, %v", len(out.Value), err)
			}
			const written = 64 // answers that the sockets' buffers may hold
			if n := made.Load(); n > maxAnswers+written+1 {
				t.Errorf("%d answers were made for a client that reads nothing", n)
			}
		})
	}
}

// reserveBig makes a server that reserves its big answers before it makes them. made counts them.
func reserveBig(memory int, made *atomic.Int64) func(*Options) {
	return func(o *Options) {
		handle := o.Handle
		o.Memory = NewMemory(memory)
		unary := o.Unary
		o.Unary = func(method string) bool { return method == big || unary(method) }
		o.Handle = func(method string, s grpc.ServerStream) error {
			if method != big {
				return handle(method, s)
			}
			var request wrapperspb.BytesValue
			if err := s.RecvMsg(&request); err != nil {
				return err
			}
			n := bigBytes * max(1, len(request.Value))
			if err := s.(*Call).Reserve(func() int { return n }); err != nil {
				return err
			}
			made.Add(1)
			return s.SendMsg(wrapperspb.Bytes(make([]byte, n)))
		}
	}
}

// TestReservedAnswers: of a client that reads nothing, no more than [maxAnswers] answers are made.
func TestReservedAnswers(t *testing.T) {
	var made atomic.Int64
	s := startServer(t, reserveBig(0, &made))
	c := connect(t, s.address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	callBig(t, c, 2*maxRunning)
	s.await(t, func(c *conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.running == maxRunning && len(c.later) > 0 && c.held >= maxAnswers*bigBytes
	})
	var out wrapperspb.BytesValue
	if err := dial(t, s.address).Invoke(within(t), big, wrapperspb.Bytes(nil), &out); err != nil || len(out.Value) != bigBytes {
		t.Errorf("another client: %d bytes, %v", len(out.Value), err)
	}
	if n := made.Load(); n > maxAnswers+1 {
		t.Errorf("%d answers were made for a client that reads nothing", n)
	}
	c.Close()
	s.awaitMemory(t, func(used int) bool { return used <= chargeStep })
}

// TestReservationsShareTheMemory: answers are counted before they are made, and those that exceed the memory together wait.
func TestReservationsShareTheMemory(t *testing.T) {
	const unit = 1 << 20
	m := NewMemory(16 * unit)
	none := func() { t.Error("a connection ends") }
	var accounts []*account
	for range 3 {
		accounts = append(accounts, m.join("", none))
	}
	for i, want := range []bool{true, true, false} {
		if got, _ := accounts[i].take(5 * unit); got != want {
			t.Errorf("answer %d: taken %v", i, got)
		}
	}
	_, freed := accounts[2].take(5 * unit)
	accounts[0].add(-5 * unit)
	select {
	case <-freed:
	default:
		t.Error("the answer that waits is not told")
	}
	if got, _ := accounts[2].take(5 * unit); !got || m.used != 10*unit {
		t.Errorf("taken %v, %d bytes are used", got, m.used)
	}
}

// TestTooLargeAnswer: an answer that exceeds the memory is refused before it is made, and its connection goes on.
func TestTooLargeAnswer(t *testing.T) {
	const units = 16
	var made atomic.Int64
	s := startServer(t, reserveBig(units*bigBytes, &made))
	conn, ctx := dial(t, s.address), within(t)
	var out wrapperspb.BytesValue
	err := conn.Invoke(ctx, big, wrapperspb.Bytes(make([]byte, units-1)), &out)
	if status.Code(err) != codes.ResourceExhausted || made.Load() != 0 {
		t.Errorf("%v", err)
	}
	err = conn.Invoke(ctx, big, wrapperspb.Bytes(make([]byte, units-units/8)), &out)
	if err != nil || made.Load() != 1 {
		t.Errorf("the largest answer: %v", err)
	}
}

// TestUnreadAnswersAreGivenUp: when connections that do not read have used up the memory, they end, and are told why. A
// client that reads goes on.
func TestUnreadAnswersAreGivenUp(t *testing.T) {
	const memory = 8 * bigBytes * maxAnswers
	var made atomic.Int64
	s := startServer(t, answerBig(memory, &made))
	var clients []*raw
	for range 12 {
		c := connect(t, s.address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		clients = append(clients, c)
		callBig(t, c, 2*maxAnswers)
	}
	var others sync.WaitGroup
	conn, ctx := dial(t, s.address), within(t)
	for range 4 {
		others.Go(func() {
			for range 20 {
				var out wrapperspb.BytesValue
				err := conn.Invoke(ctx, big, wrapperspb.Bytes(nil), &out)
				if err != nil || !bytes.Equal(out.Value, make([]byte, bigBytes)) {
					t.Errorf("%d bytes, %v", len(out.Value), err)
				}
			}
		})
	}
	others.Wait()
	s.awaitMemory(t, func(used int) bool { return used <= memory })
	ended := 0
	for _, c := range clients {
		if c.ended() {
			ended++
		}
	}
	if ended == 0 {
		t.Error("no connection was ended")
	}
}

// ended reports whether the server has ended the connection for want of memory. It asks with a ping.
func (c *raw) ended() bool {
	_ = c.WritePing(false, [8]byte{}) // the connection may be closed
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return true
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			return f.ErrCode == http2.ErrCodeEnhanceYourCalm
		case *http2.PingFrame:
			return false
		}
	}
}

// TestMemoryIsCounted: when all calls have ended and all connections are gone, nothing is counted.
func TestMemoryIsCounted(t *testing.T) {
	var made atomic.Int64
	s := startServer(t, answerBig(0, &made))
	client, ctx := dial(t, s.address), within(t)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			method := []string{echo, quick, big, passed, fails}[i%5]
			in, out := wrapperspb.Bytes(make([]byte, i*10_000)), new(wrapperspb.BytesValue)
			_ = client.Invoke(ctx, method, in, out) // fails has errors
		})
	}
	group.Wait()
	s.await(t, func(c *conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.active == 0 && c.held == 0 && c.account.used+c.owed == 0 && c.running == 0 && c.turns.TryAcquire(maxAnswers)
	})
	client.Close()
	s.awaitMemory(t, func(used int) bool { return used == 0 })
}
