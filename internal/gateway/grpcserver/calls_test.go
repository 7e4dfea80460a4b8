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
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Methods of the tests' server.
const (
	quick  = "/test.T/Quick"  // taken by Begin, and answered from another goroutine with its request
	passed = "/test.T/Passed" // taken by Begin, and given to the handler
	echo   = "/test.T/Echo"
	fails  = "/test.T/Fails"
	waits  = "/test.T/Waits" // until the call ends
	both   = "/test.T/Both"  // a stream that answers each message with itself
)

// testMessageBytes is the largest request of the tests' server.
const testMessageBytes = 16 << 20

type tested struct {
	*Server
	address string
	waiting chan context.Context // of calls of waits
}

// startServer serves until the test ends.
func startServer(t *testing.T, set ...func(*Options)) *tested {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &tested{address: l.Addr().String(), waiting: make(chan context.Context, 2*maxCalls)}
	o := Options{
		Codec: Proto{}, Unary: func(m string) bool { return m != both },
		Waits: func(m string) bool { return m == waits },
		Begin: func(c *Call, method string, message []byte) bool {
			message = bytes.Clone(message)
			switch method {
			case quick:
				go func() { c.Answer(message); c.Flush() }()
			case passed:
				go c.Pass(message)
			default:
				return false
			}
			return true
		},
		Handle: s.handle, MaxMessageBytes: testMessageBytes,
	}
	for _, f := range set {
		f(&o)
	}
	s.Server = New(o)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			n, err := l.Accept()
			if err != nil {
				return
			}
			s.ServeConn(n, func(*Connection) {})
		}
	})
	t.Cleanup(func() {
		l.Close()
		accepting.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
	})
	return s
}

func (s *tested) handle(method string, stream grpc.ServerStream) error {
	ctx := stream.Context()
	for {
		var m wrapperspb.BytesValue
		if err := stream.RecvMsg(&m); err != nil {
			if method == both && errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch method {
		case fails:
			st, err := status.New(codes.DataLoss, "all is 100 % lost\n").WithDetails(&errdetails.ErrorInfo{Reason: "why"})
			if err != nil {
				return err
			}
			stream.SetTrailer(metadata.Pairs("end", "1"))
			return st.Err()
		case waits:
			s.waiting <- ctx
			<-ctx.Done()
			return ctx.Err()
		}
		if md, ok := metadata.FromIncomingContext(ctx); ok && method == echo {
			if err := stream.SetHeader(metadata.MD{"seen": md["mark"], "seen-bin": md["mark-bin"]}); err != nil {
				return err
			}
		}
		if err := stream.SendMsg(&m); err != nil || method != both {
			return err
		}
	}
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestConnectionIsKnownFirst: nothing is read of a connection before it is known. So it can be asked whether it is idle.
func TestConnectionIsKnownFirst(t *testing.T) {
	s := startServer(t)
	near, far := net.Pipe()
	defer near.Close()
	var read atomic.Bool
	go func() {
		io.WriteString(near, http2.ClientPreface) // until it is read
		read.Store(true)
	}()
	s.ServeConn(far, func(c *Connection) {
		for range 1000 {
			runtime.Gosched()
		}
		if read.Load() || !c.Idle() {
			t.Error("the connection has been read from")
		}
	})
}

func TestUnaryCalls(t *testing.T) {
	conn, ctx := dial(t, startServer(t).address), within(t)
	for _, size := range []int{0, 10, 1000, callWindow / 2, callWindow, 5 << 20} {
		for _, method := range []string{quick, passed, echo} {
			in, out := wrapperspb.Bytes(bytes.Repeat([]byte{'x'}, size)), new(wrapperspb.BytesValue)
			if err := conn.Invoke(ctx, method, in, out); err != nil || !bytes.Equal(in.Value, out.Value) {
				t.Errorf("%s of %d bytes: %v, %d bytes", method, size, err, len(out.Value))
			}
		}
	}
	in, out := wrapperspb.Bytes(bytes.Repeat([]byte{'x'}, 10_000)), new(wrapperspb.BytesValue)
	for _, method := range []string{quick, echo} {
		err := conn.Invoke(ctx, method, in, out, grpc.UseCompressor(gzip.Name))
		if err != nil || !bytes.Equal(in.Value, out.Value) {
			t.Errorf("%s, compressed: %v", method, err)
		}
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	s := startServer(t)
	conns := []*grpc.ClientConn{dial(t, s.address), dial(t, s.address)}
	ctx := within(t)
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			for n := range 200 {
				method := []string{quick, passed, echo}[n%3]
				in, out := wrapperspb.Bytes(bytes.Repeat([]byte{byte(i), byte(n)}, 10*n)), new(wrapperspb.BytesValue)
				if err := conns[i%2].Invoke(ctx, method, in, out); err != nil || !bytes.Equal(in.Value, out.Value) {
					t.Errorf("%s: %v", method, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestErrorsAndMetadata(t *testing.T) {
	conn, ctx := dial(t, startServer(t).address), within(t)
	var header, trailer metadata.MD
	err := conn.Invoke(ctx, fails, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}, grpc.Trailer(&trailer))
	st := status.Convert(err)
	if st.Code() != codes.DataLoss || st.Message() != "all is 100 % lost\n" || len(st.Details()) != 1 ||
		len(trailer["end"]) != 1 {
		t.Errorf("%v, details %v, trailer %v", err, st.Details(), trailer)
	}
	marked := metadata.AppendToOutgoingContext(ctx, "mark", "a", "mark", "b", "mark-bin", "\x00\xff",
		"long", strings.Repeat("x", 20_000))
	in, out := new(wrapperspb.BytesValue), new(wrapperspb.BytesValue)
	if err := conn.Invoke(marked, echo, in, out, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	seen, encoded := header["seen"], header["seen-bin"]
	if len(seen) != 2 || seen[1] != "b" || len(encoded) != 1 || encoded[0] != "\x00\xff" {
		t.Errorf("header %v", header)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := conn.Invoke(short, waits, in, out); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
}

// TestCancelledCalls: the handler learns that the client gave up, or is gone.
func TestCancelledCalls(t *testing.T) {
	s := startServer(t)
	ctx := within(t)
	for _, away := range []bool{false, true} {
		conn := dial(t, s.address)
		call, cancel := context.WithCancel(ctx)
		go conn.Invoke(call, waits, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{})
		handler := <-s.waiting
		if away {
			conn.Close()
		} else {
			cancel()
		}
		select {
		case <-handler.Done():
		case <-ctx.Done():
			t.Fatal("the handler does not learn it")
		}
		cancel()
	}
}

// TestStreams sends more than all windows hold before it receives anything, in both directions.
func TestStreams(t *testing.T) {
	conn, ctx := dial(t, startServer(t).address), within(t)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, both)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 300
	sent := make(chan error, 1)
	go func() {
		for i := range messages {
			if err := stream.SendMsg(wrapperspb.Bytes(bytes.Repeat([]byte{byte(i)}, 50_000+i))); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for i := 0; ; i++ {
		var m wrapperspb.BytesValue
		err := stream.RecvMsg(&m)
		if errors.Is(err, io.EOF) && i == messages {
			break
		}
		if err != nil || len(m.Value) != 50_000+i || m.Value[0] != byte(i) {
			t.Fatalf("message %d: %v, %d bytes", i, err, len(m.Value))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestStop: calls under way end as usual, and others are refused.
func TestStop(t *testing.T) {
	s := startServer(t)
	conn, ctx := dial(t, s.address), within(t)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, both)
	if err != nil {
		t.Fatal(err)
	}
	exchange := func() error {
		var m wrapperspb.BytesValue
		if err := stream.SendMsg(wrapperspb.Bytes([]byte("a"))); err != nil {
			return err
		}
		return stream.RecvMsg(&m)
	}
	if err := exchange(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { s.Stop(ctx); close(stopped) }()
	for conn.Invoke(ctx, quick, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}) == nil {
		continue // the client has not heard of it yet
	}
	if err := exchange(); err != nil {
		t.Errorf("a call under way: %v", err)
	}
	select {
	case <-stopped:
		t.Error("the server did not wait for a call under way")
	default:
	}
	stream.CloseSend()
	if err := stream.RecvMsg(&wrapperspb.BytesValue{}); !errors.Is(err, io.EOF) {
		t.Errorf("its end: %v", err)
	}
	<-stopped
}

// TestMessagesAfterTheHandler: a message that waits for the client's window waits no longer when the handler has returned.
// It is sent before the status, and none is sent after that.
func TestMessagesAfterTheHandler(t *testing.T) {
	const length = 2 * sendBuffer
	sent := make(chan error, 2)
	s := startServer(t, func(o *Options) {
		o.Handle = func(_ string, stream grpc.ServerStream) error {
			go func() {
				for range 2 {
					sent <- stream.SendMsg(wrapperspb.Bytes(make([]byte, length)))
				}
			}()
			for !stream.(*Call).waits() && stream.Context().Err() == nil {
				runtime.Gosched()
			}
			return status.Error(codes.Unavailable, "ended")
		}
	})
	c, ctx := connect(t, s.address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), within(t)
	if err := c.call(1, both, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-sent:
			if err == nil {
				t.Error("a message was sent though the handler has returned")
			}
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	if err := errors.Join(c.WriteWindowUpdate(0, 2*length), c.WriteWindowUpdate(1, 2*length)); err != nil {
		t.Fatal(err)
	}
	if data, st := c.answer(); data < length || data > length+100 || st != fmt.Sprint(int(codes.Unavailable)) {
		t.Errorf("%d bytes, status %q", data, st)
	}
}

// waits reports whether a message waits for the client.
func (s *Call) waits() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return len(s.pending) > sendBuffer
}
