package serve

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

const (
	// DefaultMaxRequestBytes is etcd's default for --max-request-bytes.
	DefaultMaxRequestBytes = 3 << 19
	// OverheadBytes is by how much a message may exceed the limit of requests: etcd answers those itself.
	OverheadBytes = 512 << 10
)

const (
	// idleTimeout ends an HTTP/1 connection without requests.
	idleTimeout = 2 * time.Minute
	// maxHTTPHeader bounds the header of a request of HTTP/1.
	maxHTTPHeader = 64 << 10
	// bodyTimeout bounds how long the body of a request in JSON may take to arrive, and how long a client may take to read a
	// part of an answer over HTTP/1. Bodies that nobody asked for have readHeader.
	bodyTimeout = 30 * time.Second
	// decoding is how many times the length of a body a request in JSON takes.
	decoding = 4
)

// newHTTPServer makes a server of pages that bounds headers, bodies and idle connections.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: boundUnread(h), ReadHeaderTimeout: readHeader, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHTTPHeader,
	}
}

// boundUnread bounds how long the body of a request may take that its handler does not read: the server waits for it before
// it answers. A handler that reads sets a bound of its own.
func boundUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readHeader)) // connections have deadlines
		}
		next.ServeHTTP(w, r)
	})
}

// bodyLimit bounds the memory of JSON requests.
type bodyLimit struct {
	next    http.Handler
	most    int64 // the largest body
	timeout time.Duration
	memory  *grpcserver.Memory
}

// newBodyLimit bounds the memory of requests in JSON: each by what a request of maxRequestBytes takes, where keys and
// values are in base64, and all together by what a memory has.
func newBodyLimit(next http.Handler, maxRequestBytes int, memory *grpcserver.Memory) *bodyLimit {
	most := int64(base64.StdEncoding.EncodedLen(maxRequestBytes) + OverheadBytes)
	return &bodyLimit{next, most, bodyTimeout, memory}
}

// ServeHTTP serves a request. Its body takes memory as it arrives.
func (l *bodyLimit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > l.most {
		http.Error(w, "the request is larger than the gateway's --max-request-bytes allows", http.StatusRequestEntityTooLarge)
		return
	}
	body := &limitedBody{ReadCloser: http.MaxBytesReader(w, r.Body, l.most), control: http.NewResponseController(w)}
	body.holds = l.memory.Join(r.RemoteAddr, body.cut)
	defer body.finish()
	body.setDeadline(time.Now().Add(l.timeout))
	r.Body = body
	l.next.ServeHTTP(w, r)
}

// errCut is the error of a body for which there is no memory.
var errCut = errors.New("the requests under way take more memory than the gateway has for them: try again")

// limitedBody counts what it takes. At its end it lifts the deadline: the answer may be a stream.
type limitedBody struct {
	io.ReadCloser
	control *http.ResponseController
	holds   *grpcserver.Account

	mu       sync.Mutex
	over     bool // for want of memory
	finished bool // the request has been answered
}

// Read reads a part of the body.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.holds.Add(decoding * n)
	if errors.Is(err, io.EOF) {
		b.setDeadline(time.Time{})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, errCut
	}
	return n, err
}

// setDeadline bounds how long the rest of the body takes, unless the request has been cut off.
func (b *limitedBody) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && !b.finished {
		_ = b.control.SetReadDeadline(t) // connections have deadlines
	}
}

// cut ends the request for want of memory.
func (b *limitedBody) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.finished {
		b.over = true
		_ = b.control.SetReadDeadline(time.Now()) // connections have deadlines
	}
}

// finish gives back the memory when the request has been answered.
func (b *limitedBody) finish() {
	b.holds.Leave()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
}
