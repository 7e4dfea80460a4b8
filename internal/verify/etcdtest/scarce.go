package etcdtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Scarce is a listener whose process has no descriptors for connections until it has enough.
type Scarce struct {
	net.Listener
	enough atomic.Bool
}

// Accept fails, or accepts.
func (s *Scarce) Accept() (net.Conn, error) {
	if !s.enough.Load() {
		return nil, os.NewSyscallError("accept4", syscall.EMFILE)
	}
	return s.Listener.Accept()
}

// CheckLivez runs a server until the test ends. It expects that /livez at another listener of the server fails because
// of this one, until this one accepts a connection again.
func (s *Scarce) CheckLivez(t testing.TB, serve func(context.Context) error, other net.Addr) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	awaitLivez(t, other, http.StatusServiceUnavailable, "no connection can be accepted")
	s.enough.Store(true)
	awaitLivez(t, s.Addr(), http.StatusOK, "ok")
	awaitLivez(t, other, http.StatusOK, "ok")
}

// awaitLivez asks for /livez until the answer has a status and a text.
func awaitLivez(t testing.TB, at net.Addr, code int, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		r, err := http.Get("http://" + at.String() + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if r.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if r.StatusCode == code && strings.Contains(string(body), text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("/livez at %v: %s, %s; want %d, %s", at, r.Status, body, code, text)
		}
	}
}
