package grpcserver

import (
	"bytes"
	compressed "compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// raw is a client that makes frames itself.
type raw struct {
	t *testing.T
	net.Conn
	*http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// connect exchanges prefaces, with the given settings.
func connect(t *testing.T, address string, settings ...http2.Setting) *raw {
	t.Helper()
	n, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if err := n.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, Conn: n, Framer: http2.NewFramer(n, n)}
	c.encoder = hpack.NewEncoder(&c.block)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	io.WriteString(n, http2.ClientPreface)
	if err := c.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return c
}

// header is the block of a call.
func (c *raw) header(method string, more ...string) []byte {
	return c.fields(append([]string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "test", "content-type", grpcType,
		"te", "trailers",
	}, more...)...)
}

// fields is a block of names and values.
func (c *raw) fields(fields ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return c.block.Bytes()
}

// open sends the header of a call.
func (c *raw) open(id uint32, method string, end bool) error {
	return c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: c.header(method), EndHeaders: true, EndStream: end,
	})
}

// call sends a call with one message of a length.
func (c *raw) call(id uint32, method string, length int) error {
	if err := c.open(id, method, false); err != nil {
		return err
	}
	return c.WriteData(id, true, append(appendPrefix(nil, length), make([]byte, length)...))
}

// next is the next frame but SETTINGS and WINDOW_UPDATE.
func (c *raw) next() (http2.Frame, error) {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return nil, err
		}
		switch f.(type) {
		case *http2.SettingsFrame, *http2.WindowUpdateFrame:
		default:
			return f, nil
		}
	}
}

// answer reads the answer of a call, which is the only one.
func (c *raw) answer() (data int, status string) {
	whole, fields := c.whole()
	if code, ok := fields[statusField]; ok {
		return len(whole), code
	}
	if code := fields[":status"]; code != "200" {
		status = code
	}
	return len(whole), status
}

// TestSettings: windows of one byte, a table of no bytes, and changes of both in the middle.
func TestSettings(t *testing.T) {
	c := connect(t, startServer(t).address,
		http2.Setting{ID: http2.SettingHeaderTableSize}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	c.ReadMetaHeaders = hpack.NewDecoder(0, nil)
	const length = 20
	for id := uint32(1); id < 20; id += 2 {
		if err := c.call(id, quick, length); err != nil {
			t.Fatal(err)
		}
		for range prefixBytes + length - 1 {
			c.WriteWindowUpdate(id, 1)
		}
		if n, status := c.answer(); n != prefixBytes+length || status != "0" {
			t.Fatalf("call %d: %d bytes, status %s", id, n, status)
		}
	}
}

// TestAcknowledgedFirst: settings are acknowledged before what they permit is sent.
func TestAcknowledgedFirst(t *testing.T) {
	c := connect(t, startServer(t).address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	if err := c.call(1, quick, 20); err != nil {
		t.Fatal(err)
	}
	if f, err := c.next(); err != nil || f.Header().Type != http2.FrameHeaders {
		t.Fatalf("%v, %v", f, err)
	}
	if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []http2.FrameType{http2.FrameSettings, http2.FrameData} {
		if f, err := c.ReadFrame(); err != nil || f.Header().Type != want {
			t.Fatalf("%v, %v, not %v", f, err, want)
		}
	}
}

// TestTableOfFields: answers use the client's table; errors, which do not, come between.
func TestTableOfFields(t *testing.T) {
	c := connect(t, startServer(t).address)
	for i := range 20 {
		method, want := quick, "0"
		if i%3 == 0 {
			method, want = fails, "15"
		}
		if err := c.call(uint32(2*i+1), method, 0); err != nil {
			t.Fatal(err)
		}
		if _, status := c.answer(); status != want {
			t.Fatalf("call %d of %s: status %s", i, method, status)
		}
	}
}

func TestPing(t *testing.T) {
	c := connect(t, startServer(t).address)
	if err := c.WritePing(false, [8]byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	f, err := c.next()
	if ping, ok := f.(*http2.PingFrame); err != nil || !ok || !ping.IsAck() || ping.Data[1] != 2 {
		t.Errorf("%v, %v", f, err)
	}
}

// sendHeader sends a block in as many frames as it takes.
func (c *raw) sendHeader(id uint32, block []byte, end bool) error {
	n := min(len(block), firstFrame)
	err := c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: end,
	})
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), firstFrame)
		err = errors.Join(err, c.WriteContinuation(id, n == len(block), block[:n]))
	}
	return err
}

// TestRefused: requests that are no calls of gRPC get the answers of grpc-go, and the connection goes on.
func TestRefused(t *testing.T) {
	c := connect(t, startServer(t).address)
	base := []string{":method", "POST", ":scheme", "http", ":path", echo, ":authority", "a", "content-type", grpcType}
	with := func(more ...string) []string { return append(append([]string(nil), base...), more...) }
	without := func(name string, more ...string) []string {
		i := slices.Index(base, name)
		return append(slices.Delete(append([]string(nil), base...), i, i+2), more...)
	}
	for i, r := range []struct {
		fields          []string
		status, code, m string
	}{
		{without("content-type"), "415", "3", `invalid gRPC request content-type ""`},
		{without("content-type", "content-type", "text/plain"), "415", "3", `invalid gRPC request content-type "text/plain"`},
		{with("grpc-timeout", "1x"), "400", "13", `malformed grpc-timeout: transport: timeout unit is not recognized: "1x"`},
		{with("grpc-timeout", "123456789S"), "400", "13", "malformed grpc-timeout: transport: timeout string is too long"},
		{with("a-bin", "?"), "400", "13", `malformed binary metadata "?" in header "a-bin": illegal base64 data`},
		{without(":authority"), "400", "13", "no host or :authority header present"},
		{[]string{":method", "POST", ":scheme", "http", ":path", echo[1:], ":authority", "a", "content-type", grpcType},
			"200", "12", `malformed method name: "test.T/Echo"`},
		{with("grpc-encoding", "snappy"), "200", "12", `grpc: Decompressor is not installed for grpc-encoding "snappy"`},
		{with("host", "a", "host", "b"), "400", "13", "num values of :authority: 1, num values of host: 2"},
		{with("long", strings.Repeat("x", maxHeaderBytes)), "431", "8", "the header has"},
	} {
		if err := c.sendHeader(uint32(2*i+1), c.fields(r.fields...), true); err != nil {
			t.Fatal(err)
		}
		f, err := c.next()
		h, ok := f.(*http2.MetaHeadersFrame)
		if err != nil || !ok {
			t.Fatalf("%v: %v, %v", r, f, err)
		}
		got := make(map[string]string)
		for _, field := range h.Fields {
			got[field.Name] = field.Value
		}
		if got[":status"] != r.status || got[statusField] != r.code || !strings.HasPrefix(got[messageField], r.m) {
			t.Errorf("%v: %v", r, got)
		}
	}
	block := append([]string(nil), base...)
	block[1] = http.MethodGet
	if err := c.sendHeader(101, c.fields(block...), true); err != nil {
		t.Fatal(err)
	}
	if _, code := c.answer(); code != "13" {
		t.Errorf("GET: %s", code)
	}
	if err := c.sendHeader(103, c.fields(with("mark", strings.Repeat("x", 105_000))...), false); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteData(103, true, appendPrefix(nil, 0)); err != nil {
		t.Fatal(err)
	}
	if _, code := c.answer(); code != "0" {
		t.Errorf("105 kB of headers: %s", code)
	}
}

// TestOneRequest: a call without exactly one request, or whose time is over, gets the answer of grpc-go, and no handler.
func TestOneRequest(t *testing.T) {
	c, empty, id := connect(t, startServer(t).address), appendPrefix(nil, 0), uint32(1)
	for _, r := range []struct {
		body       []byte
		timeout    string
		code, says string
	}{
		{nil, "1M", "13", "cardinality violation: received no request message from non-client-streaming RPC"},
		{slices.Concat(empty, empty), "1M", "13",
			"cardinality violation: received multiple request messages for non-client-streaming RPC"},
		{append([]byte{2}, empty[1:]...), "1M", "13", "grpc: received unexpected payload format 2"},
		{empty, "0S", "4", "context deadline exceeded"},
		{empty, "1M", "0", ""},
	} {
		for _, method := range []string{quick, passed, echo} {
			err := c.WriteHeaders(http2.HeadersFrameParam{
				StreamID: id, BlockFragment: c.header(method, "grpc-timeout", r.timeout), EndHeaders: true,
				EndStream: r.body == nil,
			})
			if err == nil && r.body != nil {
				err = c.WriteData(id, true, r.body)
			}
			if err != nil {
				t.Fatal(err)
			}
			_, fields := c.whole()
			if fields[statusField] != r.code || fields[messageField] != r.says {
				t.Errorf("%s of %q within %s: %v", method, r.body, r.timeout, fields)
			}
			id += 2
		}
	}
}

// whole reads the answer of a call, which is the only one: its messages, and the fields of its header and its trailer.
func (c *raw) whole() (data []byte, fields map[string]string) {
	fields = make(map[string]string)
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			if data = append(data, f.Data()...); f.StreamEnded() { // of a page
				return data, fields
			}
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				fields[field.Name] = field.Value
			}
			if f.StreamEnded() {
				return data, fields
			}
		default:
			c.t.Fatalf("%v", f)
		}
	}
}

// TestCompressedAnswers: answers are compressed as the request says, as those of grpc-go.
func TestCompressedAnswers(t *testing.T) {
	c, id := connect(t, startServer(t).address), uint32(1)
	request, err := proto.Marshal(wrapperspb.Bytes(bytes.Repeat([]byte{'x'}, 10_000)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{gzip.Name, encoding.Identity} {
		for _, method := range []string{quick, passed, echo} {
			body := append(appendPrefix(nil, len(request)), request...)
			err := c.sendHeader(id, c.header(method, encodingField, name), false)
			if err = errors.Join(err, c.WriteData(id, true, body)); err != nil {
				t.Fatal(err)
			}
			data, fields := c.whole()
			id += 2
			if name == gzip.Name {
				if fields[encodingField] != gzip.Name || len(data) > 1000 || data[0] != isCompressed {
					t.Errorf("%s: %v, %d bytes", method, fields, len(data))
					continue
				}
				data = slices.Concat(appendPrefix(nil, len(request)), gunzip(t, data[prefixBytes:]))
			}
			if fields[statusField] != "0" || !bytes.Equal(data, body) {
				t.Errorf("%s, %s: %v, %d bytes", method, name, fields, len(data))
			}
		}
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	reader, err := compressed.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = io.ReadAll(reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestMalformed: what RFC 9113 calls malformed resets the call, and no more.
func TestMalformed(t *testing.T) {
	c := connect(t, startServer(t).address)
	c.AllowIllegalWrites = true
	base := []string{":method", "POST", ":scheme", "http", ":path", echo, ":authority", "a", "content-type", grpcType}
	id := uint32(1)
	for name, fields := range map[string][]string{
		"two paths":             append([]string{":path", "/other"}, base...),
		"capitals":              append(slices.Clone(base), "Name", "x"),
		"no name":               append(slices.Clone(base), "", "x"),
		"line feed in a value":  append(slices.Clone(base), "name", "a\nb"),
		"late pseudo-header":    append(slices.Clone(base), ":authority", "b"),
		"unknown pseudo-header": append([]string{":other", "x"}, base...),
		"of answers":            append([]string{":status", "200"}, base...),
		"of the connection":     append(slices.Clone(base), "connection", "close"),
		"te":                    append(slices.Clone(base), "te", "gzip"),
		"no method":             base[2:],
		"no path":               append(slices.Clone(base[:4]), base[6:]...),
		"empty path":            append(append(slices.Clone(base[:5]), ""), base[6:]...),
		"no scheme":             append(slices.Clone(base[:2]), base[4:]...),
		"two lengths":           append(slices.Clone(base), "content-length", "0", "content-length", "0"),
		"no length":             append(slices.Clone(base), "content-length", "-1"),
		"a length, no body":     append(slices.Clone(base), "content-length", "5"),
	} {
		if err := c.sendHeader(id, c.fields(fields...), true); err != nil {
			t.Fatal(err)
		}
		f, err := c.next()
		if r, ok := f.(*http2.RSTStreamFrame); err != nil || !ok || r.StreamID != id || r.ErrCode != http2.ErrCodeProtocol {
			t.Fatalf("%s: %v, %v", name, f, err)
		}
		id += 2
	}
}

// TestMalformedLater: so does what is malformed behind the header.
func TestMalformedLater(t *testing.T) {
	c := connect(t, startServer(t).address)
	c.AllowIllegalWrites = true
	base := []string{":method", "POST", ":scheme", "http", ":path", echo, ":authority", "a", "content-type", grpcType}
	id := uint32(1)
	for name, send := range map[string]func(id uint32) error{
		"a body longer than its length": func(id uint32) error {
			return errors.Join(c.sendHeader(id, c.fields(append(slices.Clone(base), "content-length", "4")...), false),
				c.WriteData(id, true, appendPrefix(nil, 1)), c.WritePing(false, [8]byte{}))
		},
		"a pseudo-header in trailers": func(id uint32) error {
			return errors.Join(c.open(id, echo, false), c.WriteData(id, false, appendPrefix(nil, 0)),
				c.sendHeader(id, c.fields(":path", "/other"), true), c.WritePing(false, [8]byte{}))
		},
		"trailers without an end": func(id uint32) error {
			return errors.Join(c.open(id, both, false), c.sendHeader(id, c.fields("a", "b"), false), c.WritePing(false, [8]byte{}))
		},
	} {
		if err := send(id); err != nil {
			t.Fatal(err)
		}
		code := http2.ErrCodeNo
		for done := false; !done; {
			f, err := c.next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch f := f.(type) {
			case *http2.RSTStreamFrame:
				code = f.ErrCode
			case *http2.PingFrame:
				done = true
			}
		}
		if code != http2.ErrCodeProtocol {
			t.Errorf("%s: %v", name, code)
		}
		id += 2
	}
	if err := c.call(id, echo, 0); err != nil {
		t.Fatal(err)
	}
	if _, code := c.answer(); code != "0" {
		t.Errorf("a call afterwards: %s", code)
	}
}

// TestBrokenProtocol: each of these ends the connection with a GOAWAY, and no other.
func TestBrokenProtocol(t *testing.T) {
	s := startServer(t)
	for name, broken := range map[string]func(c *raw) error{
		"even number": func(c *raw) error { return c.open(2, echo, true) },
		"smaller number": func(c *raw) error {
			return errors.Join(c.open(5, echo, true), c.open(3, echo, true))
		},
		"headers of a call that is over": func(c *raw) error {
			return errors.Join(c.open(1, waits, true), c.WriteRSTStream(1, http2.ErrCodeCancel), c.open(1, waits, true))
		},
		"data of no call":  func(c *raw) error { return c.WriteData(7, true, nil) },
		"reset of no call": func(c *raw) error { return c.WriteRSTStream(7, http2.ErrCodeCancel) },
		"window overflow":  func(c *raw) error { return c.WriteWindowUpdate(0, maxWindow) },
		"no such index": func(c *raw) error {
			return c.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: []byte{0xfe}, EndHeaders: true, EndStream: true,
			})
		},
		"endless header": func(c *raw) error {
			err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.header(echo)})
			for range maxBlockBytes/1000 + 1 {
				err = errors.Join(err, c.WriteContinuation(1, false, make([]byte, 1000)))
			}
			return err
		},
		"more than the window": func(c *raw) error {
			err := c.open(1, waits, false)
			for range callWindow/firstFrame + 1 {
				err = errors.Join(err, c.WriteData(1, false, make([]byte, firstFrame)))
			}
			return errors.Join(err, c.WriteData(0x7ffffff1, true, nil))
		},
		"push": func(c *raw) error {
			return c.WritePushPromise(http2.PushPromiseParam{
				StreamID: 1, PromiseID: 2, BlockFragment: c.header(echo), EndHeaders: true,
			})
		},
	} {
		c := connect(t, s.address)
		c.AllowIllegalWrites = true
		if err := broken(c); err != nil {
			t.Logf("%s: %v", name, err) // it may be over before all is written
		}
		goAway := false
		for {
			f, err := c.next()
			if err != nil {
				break
			}
			if g, ok := f.(*http2.GoAwayFrame); ok {
				goAway = g.ErrCode != http2.ErrCodeNo
			}
		}
		if !goAway {
			t.Errorf("%s: no GOAWAY", name)
		}
	}
	other := connect(t, s.address)
	other.call(1, quick, 1)
	if _, status := other.answer(); status != "0" {
		t.Errorf("another connection: status %s", status)
	}
}

// TestRapidReset resets calls as fast as it makes them: no more are under way than a connection may have, and others
// are served.
func TestRapidReset(t *testing.T) {
	s := startServer(t)
	c := connect(t, s.address)
	go io.Copy(io.Discard, c.Conn)
	for i := range 4 * maxCalls {
		id := uint32(2*i + 1)
		method := []string{waits, quick, both}[i%3]
		if err := errors.Join(c.call(id, method, 0), c.WriteRSTStream(id, http2.ErrCodeCancel)); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			if n := runtime.NumGoroutine(); n > maxCalls+1000 {
				t.Fatalf("%d goroutines", n)
			}
		}
	}
	other, ctx := dial(t, s.address), within(t)
	if err := other.Invoke(ctx, quick, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}); err != nil {
		t.Error(err)
	}
	c.Conn.Close()
}

// TestMostCalls: calls beyond the limit are refused, in a way that clients repeat.
func TestMostCalls(t *testing.T) {
	s := startServer(t)
	c := connect(t, s.address)
	go func() {
		for i := range maxCalls + 1 {
			c.call(uint32(2*i+1), waits, 0)
		}
	}()
	f, err := c.next()
	r, ok := f.(*http2.RSTStreamFrame)
	if err != nil || !ok || r.StreamID != 2*maxCalls+1 || r.ErrCode != http2.ErrCodeRefusedStream {
		t.Errorf("%v, %v", f, err)
	}
}

// TestClientThatDoesNotRead has a client ask without reading: its connection takes no more requests at some time, and
// others are served.
func TestClientThatDoesNotRead(t *testing.T) {
	s := startServer(t)
	c := connect(t, s.address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	if err := c.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	stuck := make(chan struct{})
	go func() {
		defer close(stuck)
		for i := range uint32(1 << 20) { // 16 GB if it were not stopped
			if c.call(2*i+1, quick, firstFrame-prefixBytes) != nil {
				return
			}
		}
		t.Error("all requests were taken")
	}()
	other, ctx := dial(t, s.address), within(t)
	for held, same := 0, 0; same < 100 || held < maxOutputBytes; {
		if err := other.Invoke(ctx, quick, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}); err != nil {
			t.Fatal(err)
		}
		now := s.output()
		if same++; now != held {
			held, same = now, 0
		}
		if held > 2*maxOutputBytes+maxHeldBytes {
			t.Fatalf("%d bytes wait for the client", held)
		}
	}
	c.Conn.Close()
	<-stuck
}

// output is how many bytes wait for all clients.
func (s *tested) output() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		n += len(c.out) + c.writing + c.held
		c.mu.Unlock()
	}
	return n
}

// TestSilentClient: a client that answers no ping is given up.
func TestSilentClient(t *testing.T) {
	s := startServer(t, func(o *Options) { o.PingEvery, o.PingTimeout = time.Millisecond, time.Millisecond })
	c := connect(t, s.address)
	if err := c.open(1, both, false); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c.Conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("not closed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(ctx)
}
