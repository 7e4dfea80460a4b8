package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
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
	// bodyTimeout bounds how long the body of a request waits for room, and then how long it may take to arrive.
	bodyTimeout = 30 * time.Second
	// largeBodies is how many bodies of the maximum size may be under way.
	largeBodies = 64
	// smallBody is the longest body that needs no room.
	smallBody = 16 << 10
)

// newHTTPServer makes a server of pages that bounds headers and idle connections.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeader, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHTTPHeader,
	}
}

// bodyLimit bounds the memory of JSON requests.
type bodyLimit struct {
	next    http.Handler
	most    int64 // the largest body
	timeout time.Duration
	room    *semaphore.Weighted
}

// LimitBodies bounds the memory of requests in JSON: each by what a request of maxRequestBytes takes, where keys and
// values are in base64, and all together.
func LimitBodies(next http.Handler, maxRequestBytes int) http.Handler {
	return newBodyLimit(next, maxRequestBytes)
}

// newBodyLimit bounds bodies by what a request of maxRequestBytes takes in JSON, where keys and values are in base64.
func newBodyLimit(next http.Handler, maxRequestBytes int) *bodyLimit {
	most := int64(base64.StdEncoding.EncodedLen(maxRequestBytes) + OverheadBytes)
	return &bodyLimit{next, most, bodyTimeout, semaphore.NewWeighted(largeBodies * most)}
}

// ServeHTTP serves a request when there is room for its body.
func (l *bodyLimit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size := r.ContentLength
	if size > l.most {
		http.Error(w, "the request is larger than the gateway's --max-request-bytes allows", http.StatusRequestEntityTooLarge)
		return
	}
	if size < 0 {
		size = l.most
	}
	body := &limitedBody{ReadCloser: http.MaxBytesReader(w, r.Body, l.most), done: func() {}}
	if size > smallBody {
		ctx, cancel := context.WithTimeout(r.Context(), l.timeout)
		defer cancel()
		if l.room.Acquire(ctx, size) != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many large requests are under way at this gateway: try again", http.StatusServiceUnavailable)
			return
		}
		body.done = sync.OnceFunc(func() { l.room.Release(size) })
		defer body.done()
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(l.timeout)) == nil {
		body.control = control
	}
	r.Body = body
	l.next.ServeHTTP(w, r)
}

// limitedBody gives its room back at its end, and lifts the deadline: the answer may be a stream.
type limitedBody struct {
	io.ReadCloser
	done    func()
	control *http.ResponseController // nil: there is no deadline
}

// Read reads a part of the body.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.done()
		if b.control != nil {
			err = cmp.Or(b.control.SetReadDeadline(time.Time{}), err)
		}
	}
	return n, err
}
