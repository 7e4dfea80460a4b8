package grpcserver

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// frames returns what a client sends after its preface and its first SETTINGS.
func frames(write func(*http2.Framer)) []byte {
	var text bytes.Buffer
	f := http2.NewFramer(&text, nil)
	f.AllowIllegalWrites = true
	write(f)
	return text.Bytes()
}

func block(fields ...string) []byte {
	var text bytes.Buffer
	e := hpack.NewEncoder(&text)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a buffer takes everything
	}
	return text.Bytes()
}

// FuzzFrames: whatever a client sends, the connection ends when the client is gone, and nothing is counted afterwards.
func FuzzFrames(f *testing.F) {
	call := block(":method", "POST", ":scheme", "http", ":path", echo, ":authority", "a", "content-type", grpcType)
	page := block(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a")
	f.Add(frames(func(w *http2.Framer) {
		w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: call, EndHeaders: true})
		w.WriteData(1, true, appendPrefix(nil, 0))
		w.WriteWindowUpdate(0, 100)
		w.WritePing(false, [8]byte{1})
		w.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: page[:4]})
		w.WriteContinuation(3, true, page[4:])
		w.WriteRSTStream(3, http2.ErrCodeCancel)
	}))
	f.Add(frames(func(w *http2.Framer) {
		w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}, http2.Setting{ID: 1, Val: 0})
		w.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: call, EndHeaders: true, EndStream: true})
		w.WriteDataPadded(5, false, []byte("x"), make([]byte, 9))
		w.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: block("a", "b"), EndHeaders: true, EndStream: true})
		w.WriteGoAway(1, 0, nil)
	}))
	server := New(Options{
		Codec: Proto{}, Unary: func(m string) bool { return m == echo },
		Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }), MaxMessageBytes: 1 << 16,
		Handle: func(_ string, s grpc.ServerStream) error {
			var m wrapperspb.BytesValue
			for {
				if err := s.RecvMsg(&m); err != nil {
					return err
				}
				if err := s.SendMsg(&m); err != nil {
					return err
				}
			}
		},
	})
	f.Fuzz(func(t *testing.T, sent []byte) {
		near, far := net.Pipe()
		c := newConn(server, far)
		ended := make(chan struct{})
		go func() { c.run(); close(ended) }()
		go io.Copy(io.Discard, near)
		first := frames(func(w *http2.Framer) { w.WriteSettings() })
		for _, part := range [][]byte{[]byte(http2.ClientPreface), first, sent} {
			near.Write(part) // the server may have ended the connection
		}
		near.Close()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the connection has not ended a minute after its client")
		}
		if server.o.Memory.used != 0 || c.active != 0 || len(c.calls) != 0 {
			t.Errorf("%d bytes, %d and %d calls are left", server.o.Memory.used, c.active, len(c.calls))
		}
	})
}

// FuzzHeaders: every block of fields is decoded or ends the connection, in one part or in many, with the same result.
func FuzzHeaders(f *testing.F) {
	f.Add(block(":method", "POST", ":scheme", "http", ":path", echo, "content-type", grpcType, "grpc-timeout", "1S"), 3)
	f.Add(block(":path", "/a", ":path", "/b", "Name", "x", "a-bin", "?", "content-length", "1"), 1)
	f.Add([]byte{0x82, 0x86, 0x84, 0x3f, 0xe1, 0x1f}, 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = max(1, size%64)
		decode := func(size int) (*request, error) {
			h := new(headers)
			h.init()
			for rest := text; len(rest) > 0; {
				n := min(size, len(rest))
				if err := h.add(rest[:n]); err != nil {
					return nil, err
				}
				rest = rest[n:]
			}
			return h.end()
		}
		whole, err := decode(max(1, len(text)))
		parts, partsErr := decode(size)
		if (err == nil) != (partsErr == nil) {
			t.Fatalf("as a whole %v, in parts %v", err, partsErr)
		}
		if err != nil {
			return
		}
		if whole.method != parts.method || whole.malformed != parts.malformed || whole.bytes != parts.bytes ||
			(whole.refused == nil) != (parts.refused == nil) {
			t.Errorf("as a whole %+v, in parts %+v", whole, parts)
		}
		if !whole.malformed && !whole.trailers && whole.refused == nil && (whole.method == "" || !isCall(whole.kind)) {
			t.Errorf("%+v is taken for a call", whole)
		}
	})
}
