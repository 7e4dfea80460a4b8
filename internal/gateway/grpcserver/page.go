package grpcserver

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// page is an HTTP request that is not a gRPC call. It is the body of the request and the [http.ResponseWriter] of the
// answer.
type page struct {
	*Call
	header   http.Header
	deadline func() bool // stops the timer of the deadline
}

// servePage has [Options].Page answer the request.
func (s *Call) servePage() {
	p := &page{Call: s, header: make(http.Header)}
	defer func() {
		if reason := recover(); reason != nil && reason != any(http.ErrAbortHandler) {
			slog.Error("the handler of a page panicked", "path", s.request.method, "panic", reason, "stack", string(debug.Stack()))
			s.conn.reset(s.id, http2.ErrCodeInternal, true)
		}
	}()
	r, err := p.httpRequest()
	if err != nil {
		http.Error(p, err.Error(), http.StatusBadRequest)
		return
	}
	defer func() { _ = p.SetReadDeadline(time.Time{}) }() // never fails
	s.conn.server.o.Page.ServeHTTP(p, r)
	p.WriteHeader(http.StatusOK)
}

// httpRequest is the request in the form that handlers take.
func (p *page) httpRequest() (*http.Request, error) {
	in := p.request
	address, err := url.ParseRequestURI(in.method)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: in.verb, URL: address, Proto: "HTTP/2.0", ProtoMajor: 2, Header: make(http.Header, len(in.md)),
		Body: io.NopCloser(p), ContentLength: -1, Host: in.host, RemoteAddr: p.conn.net.RemoteAddr().String(),
		RequestURI: in.method,
	}
	for name, values := range in.md {
		r.Header[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
	}
	if in.kind != "" {
		r.Header.Set("Content-Type", in.kind)
	}
	r.ContentLength = int64(in.length)
	return r.WithContext(p.ctx), nil
}

// Read reads the body.
func (p *page) Read(b []byte) (int, error) {
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 {
		switch {
		case p.over:
			return 0, p.lost()
		case p.reserved.late != nil && *p.reserved.late:
			return 0, os.ErrDeadlineExceeded
		case len(p.body) > 0:
			return p.take(b), nil
		case p.received:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
	return 0, nil
}

// SetReadDeadline bounds how long [page.Read] waits; the zero time lifts the bound. [http.ResponseController] calls it.
func (p *page) SetReadDeadline(t time.Time) error {
	if p.deadline != nil {
		p.deadline()
	}
	if !t.IsZero() {
		p.deadline = p.expire(time.Until(t))
		return nil
	}
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.deadline, p.reserved.late = nil, nil
	return nil
}

// Header is the header of the answer.
func (p *page) Header() http.Header { return p.header }

// WriteHeader sends the header, once.
func (p *page) WriteHeader(status int) {
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.headed || p.over {
		return
	}
	p.headed = true
	block := appendField(c.answers.begin(nil), justLiteral, ":status", strconv.Itoa(status))
	if p.header.Get("Date") == "" {
		now := time.Now().UTC().Format(http.TimeFormat) //nolint:forbidigo // nothing is decided by it
		block = appendField(block, justLiteral, "date", now)
	}
	for name, values := range p.header {
		name = strings.ToLower(name)
		if ofConnection[name] {
			continue
		}
		for _, v := range values {
			block = appendField(block, justLiteral, name, v)
		}
	}
	c.block(p.id, block, 0)
}

// Write sends a part of the answer. It waits while much waits for the client's window.
func (p *page) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.request.verb == http.MethodHead {
		return len(b), nil
	}
	c := p.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 0; n < len(b); {
		if p.over {
			return n, p.lost()
		}
		part := min(len(b)-n, sendBuffer)
		c.hold(part)
		p.pending = append(p.pending, b[n:n+part]...)
		n += part
		p.pump()
		p.pace()
	}
	return len(b), nil
}

// Flush sends what was written.
func (p *page) Flush() {
	p.WriteHeader(http.StatusOK)
	p.Call.Flush()
}
