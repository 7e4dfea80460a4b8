package grpcserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// pages are the handlers of the tests.
func pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Seen", r.Header.Get("Mark"))
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusAccepted)
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("/early", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("a test of panics") })
	return mux
}

// browser is a client of pages on one connection.
func browser(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func startPages(t *testing.T) *tested {
	t.Helper()
	return startServer(t, func(o *Options) { o.Page = pages() })
}

// TestPages: a request of HTTP gets its handler's status, fields and body, however long the body is.
func TestPages(t *testing.T) {
	address := startPages(t).address
	client := browser(t)
	for _, length := range []int{0, 1, 3*connWindow + 1} {
		body := bytes.Repeat([]byte{'p'}, length)
		r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+address+"/echo?a=b", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Mark", "m")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !bytes.Equal(got, body) || answer.StatusCode != http.StatusAccepted || answer.Header.Get("Seen") != "m" {
			t.Errorf("%d bytes: %v, %s, %d bytes, %v", length, err, answer.Status, len(got), answer.Header)
		}
	}
	for method, path := range map[string]string{http.MethodHead: "/echo", http.MethodPost: "/early"} {
		r, err := http.NewRequestWithContext(within(t), method, "http://"+address+path, strings.NewReader("not read"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(answer.Body); err != nil || len(got) > 0 {
			t.Errorf("%s %s: %q, %v", method, path, got, err)
		}
		answer.Body.Close()
	}
}

// TestResetAfterAnswer: a page is answered before its request ends, and the client resets the stream. Nothing may
// follow on it, as if the client had been faster.
func TestResetAfterAnswer(t *testing.T) {
	address := startPages(t).address
	header := func(c *raw, end bool) error {
		return c.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: c.fields(":method", "POST", ":scheme", "http", ":path", "/early"), EndHeaders: true, EndStream: end,
		})
	}
	for name, more := range map[string]func(*raw) error{
		"HEADERS": func(c *raw) error { return header(c, true) },
		"DATA":    func(c *raw) error { return c.WriteData(1, true, []byte("late")) },
	} {
		c := connect(t, address)
		if err := header(c, false); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			f, err := c.next()
			if err != nil {
				t.Fatal(err)
			}
			answered = f.Header().Type == http2.FrameRSTStream
		}
		if err := errors.Join(c.WriteRSTStream(1, http2.ErrCodeCancel), more(c)); err != nil {
			t.Fatal(err)
		}
		var code http2.ErrCode
		switch f, err := c.next(); f := f.(type) {
		case *http2.GoAwayFrame:
			code = f.ErrCode
		case *http2.RSTStreamFrame:
			code = f.ErrCode
		default:
			t.Fatal(name, f, err)
		}
		if code != http2.ErrCodeStreamClosed {
			t.Errorf("%s after RST_STREAM: %v", name, code)
		}
	}
}

// TestPagesAndCalls: one connection carries both, and a handler that panics ends its request only.
func TestPagesAndCalls(t *testing.T) {
	c := connect(t, startPages(t).address)
	get := func(id uint32, path string, more ...string) {
		t.Helper()
		if err := c.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: c.fields(append([]string{":method", "GET", ":scheme", "http", ":path", path}, more...)...),
			EndHeaders: true, EndStream: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	get(1, "/echo")
	if n, status := c.answer(); n != 0 || status != "202" {
		t.Errorf("a page: %d bytes, status %s", n, status)
	}
	get(3, "/panic")
	if f, err := c.next(); err != nil || f.Header().Type != http2.FrameRSTStream {
		t.Fatalf("a handler that panics: %v, %v", f, err)
	}
	get(5, "/echo", "connection", "upgrade")
	if f, err := c.next(); err != nil || f.Header().Type != http2.FrameRSTStream {
		t.Errorf("a field that HTTP/2 does not allow: %v, %v", f, err)
	}
	if err := c.call(7, quick, 3); err != nil {
		t.Fatal(err)
	}
	if n, status := c.answer(); n != prefixBytes+3 || status != "0" {
		t.Errorf("a call: %d bytes, status %s", n, status)
	}
}
