package grpcserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestManyRequestsInParts: a client sends frames of its calls in turn, so the connection's window holds the beginning
// of each request and the end of none.
func TestManyRequestsInParts(t *testing.T) {
	const length = callWindow / 4
	conn, ctx := dial(t, startServer(t).address), within(t)
	var group sync.WaitGroup
	for range 3 * connWindow / length {
		group.Go(func() {
			in, out := wrapperspb.Bytes(bytes.Repeat([]byte{'x'}, length)), new(wrapperspb.BytesValue)
			if err := conn.Invoke(ctx, echo, in, out); err != nil || !bytes.Equal(in.Value, out.Value) {
				t.Errorf("%v, %d bytes", err, len(out.Value))
			}
		})
	}
	group.Wait()
}

// TestLengthWithoutMessage: the length of a message takes no memory before the message arrives.
func TestLengthWithoutMessage(t *testing.T) {
	const calls = 1000
	s := startServer(t)
	c := connect(t, s.address)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range uint32(calls) {
		err := errors.Join(c.open(2*i+1, both, false), c.WriteData(2*i+1, false, appendPrefix(nil, testMessageBytes)))
		if err != nil {
			t.Fatal(err)
		}
	}
	for s.waitingInReceive() < calls {
		runtime.Gosched()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > 64<<10 {
		t.Errorf("%d bytes for each call", each)
	}
}

// waitingInReceive is how many calls have taken all that they received.
func (s *tested) waitingInReceive() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		for _, call := range c.calls {
			if call.unannounced == prefixBytes {
				n++
			}
		}
		c.mu.Unlock()
	}
	return n
}

// TestRepeatedSettings: a frame may not change the windows of all calls thousands of times.
func TestRepeatedSettings(t *testing.T) {
	c := connect(t, startServer(t).address)
	settings := make([]http2.Setting, firstFrame/6)
	for i := range settings {
		settings[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}
	}
	if err := c.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	f, err := c.next()
	if g, ok := f.(*http2.GoAwayFrame); err != nil || !ok || g.ErrCode != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("%v, %v", f, err)
	}
}

// TestManySettings: a client may not change the windows of all calls again and again.
func TestManySettings(t *testing.T) {
	c := connect(t, startServer(t).address)
	for i := range uint32(maxSettings) { // connect has sent the first
		if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	for acknowledged := 0; ; {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				acknowledged++
			}
		case *http2.PingFrame:
			t.Fatal("the connection goes on")
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeEnhanceYourCalm || acknowledged != maxSettings {
				t.Errorf("%v after %d acknowledged SETTINGS", f.ErrCode, acknowledged)
			}
			return
		}
	}
}

// TestFrameBehindTheEnd: a frame that was read before its connection was closed ends no call again.
func TestFrameBehindTheEnd(t *testing.T) {
	s := startServer(t, func(o *Options) {
		o.Begin = func(*Call, string, []byte) bool {
			t.Error("a call of a closed connection begins")
			return false
		}
	})
	c := connect(t, s.address)
	if err := c.open(1, echo, false); err != nil {
		t.Fatal(err)
	}
	if err := c.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.next(); err != nil { // the answer to the ping: the call is open
		t.Fatal(err)
	}
	s.mu.Lock()
	var served *conn
	for c := range s.conns {
		served = c
	}
	s.mu.Unlock()
	served.close()
	var text bytes.Buffer
	if err := http2.NewFramer(&text, nil).WriteData(1, true, appendPrefix(nil, 0)); err != nil {
		t.Fatal(err)
	}
	f, err := http2.NewFramer(nil, &text).ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	_ = served.frame(f) // the connection is closed, whatever comes of the frame
}

// slowEnd is a connection whose Close waits, as that of TLS does for a client that does not read.
type slowEnd struct {
	net.Conn
	closing, closed chan struct{}
}

func (s slowEnd) Close() error {
	close(s.closing)
	<-s.closed
	return s.Conn.Close()
}

// TestSlowClose: while a connection is closed, the answer to one of its calls does not wait. The goroutine that answers
// has the answers of other clients too.
func TestSlowClose(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	end := slowEnd{near, make(chan struct{}), make(chan struct{})}
	c := newConn(New(Options{}), end)
	call := &Call{conn: c, id: 1, request: new(request), unary: true, received: true}
	c.calls[1], c.active = call, 1
	go c.close()
	<-end.closing
	answered := make(chan struct{})
	go func() { call.Answer(nil); close(answered) }()
	select {
	case <-answered:
	case <-within(t).Done():
		t.Error("the answer waits for the connection")
	}
	close(end.closed)
}

// TestRequestsBehindTheStatus: what a client sends while the status waits for its window counts as taken.
func TestRequestsBehindTheStatus(t *testing.T) {
	c := newConn(New(Options{}), nil)
	c.ours, c.last, c.held = connWindow, 1, 1
	call := &Call{conn: c, id: 1, request: new(request), started: true, ours: callWindow, pending: []byte{0}}
	c.calls[1] = call
	call.finish(nil)
	var text bytes.Buffer
	w, r := http2.NewFramer(&text, nil), http2.NewFramer(nil, &text)
	if err := errors.Join(w.WriteData(1, false, make([]byte, 10)), w.WriteWindowUpdate(1, 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f, err := r.ReadFrame()
		if err == nil {
			err = c.frame(f)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !call.over || c.ours+c.unannounced != connWindow {
		t.Errorf("ended: %v; the client lost %d bytes of its window", call.over, connWindow-c.ours-c.unannounced)
	}
}

// TestMadeYouReset is CVE-2025-8671: calls that the server resets because of what the client sends. They count until
// they have ended, and other connections are answered.
func TestMadeYouReset(t *testing.T) {
	const calls = 3 * maxCalls
	s := startServer(t)
	c := connect(t, s.address)
	go io.Copy(io.Discard, c.Conn)
	for i := range uint32(calls) {
		id := 2*i + 1
		if err := errors.Join(c.open(id, waits, false), c.WriteWindowUpdate(id, maxWindow)); err != nil {
			break // the server may end the connection
		}
		if i%1000 != 0 {
			continue
		}
		s.mu.Lock()
		for served := range s.conns {
			served.mu.Lock()
			if served.active > maxCalls || len(served.calls) > maxCalls {
				t.Errorf("%d calls are under way, %d of them open", served.active, len(served.calls))
			}
			served.mu.Unlock()
		}
		s.mu.Unlock()
	}
	other := connect(t, s.address)
	if err := other.call(1, echo, 0); err != nil {
		t.Fatal(err)
	}
	if _, code := other.answer(); code != "0" {
		t.Errorf("another client: status %s", code)
	}
}
