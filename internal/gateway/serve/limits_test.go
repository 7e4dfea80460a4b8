package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

// serveBodies serves a handler that reads the body behind a limit, and reports what the reading ended with.
func serveBodies(t *testing.T, set func(*bodyLimit)) (address string, ended <-chan error) {
	t.Helper()
	result := make(chan error, 10)
	l := newBodyLimit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		result <- err
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}), smallBody)
	set(l)
	s := httptest.NewUnstartedServer(l)
	s.Config = newHTTPServer(l)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), result
}

func post(t *testing.T, address string, body io.Reader) int {
	t.Helper()
	answer, err := http.Post("http://"+address+"/v3/kv/put", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// TestLargestBody refuses a body by its length before it is read, and one of unknown length when it exceeds the limit.
func TestLargestBody(t *testing.T) {
	var most int64
	address, ended := serveBodies(t, func(l *bodyLimit) { most = l.most })
	if got := post(t, address, bytes.NewReader(make([]byte, most+1))); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a body above the limit: status %d", got)
	}
	if got := post(t, address, bytes.NewReader(make([]byte, most))); got != http.StatusOK || <-ended != nil {
		t.Errorf("the largest body: status %d", got)
	}
	unknown := io.MultiReader(bytes.NewReader(make([]byte, most+1))) // of no length that the client knows
	if got := post(t, address, unknown); got != http.StatusBadRequest {
		t.Errorf("a body of unknown length: status %d", got)
	}
	var tooLarge *http.MaxBytesError
	if err := <-ended; !errors.As(err, &tooLarge) {
		t.Errorf("reading it: %v", err)
	}
}

// announce sends the header of a request and a part of its body.
func announce(t *testing.T, address string, length int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	header := "POST /v3/kv/put HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n{"
	if _, err := fmt.Fprintf(conn, header, length); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowBody ends a request whose body does not arrive.
func TestSlowBody(t *testing.T) {
	address, ended := serveBodies(t, func(l *bodyLimit) { l.timeout = time.Millisecond })
	announce(t, address, 100)
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading the body: %v", err)
	}
}

// TestNoRoomForBodies: large requests wait for room, and small ones do not.
func TestNoRoomForBodies(t *testing.T) {
	large := strings.Repeat(" ", 2*smallBody)
	address, _ := serveBodies(t, func(l *bodyLimit) {
		l.timeout, l.room = time.Millisecond, semaphore.NewWeighted(int64(len(large)-1))
	})
	if got := post(t, address, strings.NewReader(large)); got != http.StatusServiceUnavailable {
		t.Errorf("a large request: status %d", got)
	}
	if got := post(t, address, strings.NewReader("{}")); got != http.StatusOK {
		t.Errorf("a small request: status %d", got)
	}
}

// TestAnswerAfterBody: the deadline of the body does not end an answer that takes longer.
func TestAnswerAfterBody(t *testing.T) {
	const timeout = 20 * time.Millisecond
	l := newBodyLimit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Errorf("reading the body: %v", err)
		}
		select {
		case <-r.Context().Done():
			t.Error("the answer was cut off")
		case <-time.After(2 * timeout):
		}
	}), smallBody)
	l.timeout = timeout
	s := httptest.NewServer(l)
	defer s.Close()
	if got := post(t, s.Listener.Addr().String(), strings.NewReader("{}")); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}

// TestRequestMemory: the bound follows the memory limit, with a least and a most.
func TestRequestMemory(t *testing.T) {
	for limit, want := range map[int64]int{
		0: 512 << 20, 64 << 20: 32 << 20, 1 << 30: 128 << 20, 4 << 30: 512 << 20, 1 << 40: 512 << 20,
	} {
		if got := requestMemory(limit); got != want {
			t.Errorf("limit %d: %d, want %d", limit, got, want)
		}
	}
}
