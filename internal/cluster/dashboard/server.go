package dashboard

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

//go:embed page
var files embed.FS

// pageFiles are the files of the page, by the patterns of their paths.
var pageFiles = map[string]struct{ name, kind string }{
	"/{$}":       {"page/index.html", "text/html; charset=utf-8"},
	"/page.js":   {"page/page.js", "text/javascript; charset=utf-8"},
	"/style.css": {"page/style.css", "text/css; charset=utf-8"},
	"/icon.svg":  {"page/icon.svg", "image/svg+xml"},
}

const (
	// maxStreams is how many browsers may follow at a time.
	maxStreams = 32
	// sendEvery is the least time between two documents to one browser.
	sendEvery = 200 * time.Millisecond
	// sendWithin is how long a browser may take to accept a document.
	sendWithin = 10 * time.Second
)

// policy lets the page load its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// DefaultAddress is where the page is served by default.
const DefaultAddress = "127.0.0.1:4420"

// Server serves the page.
type Server struct {
	collector *collector
	host      string // that browsers may name beside IP addresses and localhost
	streams   chan struct{}
}

// New returns a server for a cluster. host is a host name of the server itself; it may be empty.
func New(source Source, host string) *Server {
	return &Server{collector: newCollector(source), host: host, streams: make(chan struct{}, maxStreams)}
}

// Serve follows the cluster and answers browsers until ctx ends, and closes the listener. With an identity it speaks
// TLS, and asks browsers for a certificate of the cluster.
func (s *Server) Serve(ctx context.Context, listener net.Listener, identity *security.Identity) error {
	ctx, cancel := context.WithCancel(ctx)
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		s.collector.run(ctx)
	}()
	defer func() { cancel(); <-collected }()
	handler := s.Handler()
	if identity != nil {
		listener, handler = tls.NewListener(listener, identity.ServerTLS()), identity.Guard(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("dashboard: %w", err)
	}
	return nil
}

// Handler answers browsers.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, file := range pageFiles {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			text, err := files.ReadFile(file.name)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", file.kind)
			_, _ = w.Write(text) // the browser may be gone
		})
	}
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /document.json", s.document)
	mux.HandleFunc("GET /trace", s.traceRead)
	mux.HandleFunc("POST /trace", s.traceWrite)
	return s.guard(mux)
}

// guard refuses requests that pages of other sites make: by a name that resolves to this host, or directly.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.names(r.Host) {
			http.Error(w, "open this page by an IP address, localhost, or the host of --listen", http.StatusMisdirectedRequest)
			return
		}
		// A person may follow a link to the page itself, and to nothing else.
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case site == "" || site == "none" || site == "same-origin":
		case r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate":
		default:
			http.Error(w, "a page of another site may not ask", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// names reports whether a request's host is this server.
func (s *Server) names(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || s.host != "" && host == s.host
}

func (s *Server) document(w http.ResponseWriter, _ *http.Request) {
	s.collector.audience.glance(time.Now())
	text, _, err := s.collector.document()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the browser may be gone
}

// events sends the document whenever it changed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many pages follow: close one", http.StatusServiceUnavailable)
		return
	}
	defer s.collector.audience.enter()()
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	for {
		text, changed, err := s.collector.document()
		if err == nil {
			err = to.SetWriteDeadline(time.Now().Add(sendWithin))
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", text) // JSON has no line breaks
		}
		if err == nil {
			err = to.Flush()
		}
		if err != nil {
			return
		}
		if !retry.Sleep(r.Context(), sendEvery) {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
