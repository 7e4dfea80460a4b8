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

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// serveBodies serves a handler that reads the body behind a limit, and reports what the reading ended with.
func serveBodies(t *testing.T, set func(*bodyLimit)) (address string, ended <-chan error) {
	t.Helper()
	result := make(chan error, 1000)
	l := newBodyLimit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		result <- err
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}), smallBody, grpcserver.NewMemory(0))
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
	got := post(t, address, bytes.NewReader(make([]byte, most)))
	if got != http.StatusOK || await(t, "the largest body", ended) != nil {
		t.Errorf("the largest body: status %d", got)
	}
	unknown := io.MultiReader(bytes.NewReader(make([]byte, most+1))) // of no length that the client knows
	if got := post(t, address, unknown); got != http.StatusBadRequest {
		t.Errorf("a body of unknown length: status %d", got)
	}
	var tooLarge *http.MaxBytesError
	if err := await(t, "a body of unknown length", ended); !errors.As(err, &tooLarge) {
		t.Errorf("reading it: %v", err)
	}
}

// announce sends the header of a request and a part of its body.
func announce(t *testing.T, address, path string, length int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	header := "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n{"
	if _, err := fmt.Fprintf(conn, header, path, length); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowBody ends a request whose body does not arrive.
func TestSlowBody(t *testing.T) {
	address, ended := serveBodies(t, func(l *bodyLimit) { l.timeout = time.Millisecond })
	announce(t, address, "/v3/kv/put", 100)
	if err := await(t, "a body that does not arrive", ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading the body: %v", err)
	}
}

// TestAnnouncedBodies: bodies take memory as they arrive, however large they are announced. When it is used up, those that
// have taken most end.
func TestAnnouncedBodies(t *testing.T) {
	const memory = 1 << 20
	address, ended := serveBodies(t, func(l *bodyLimit) { l.memory = grpcserver.NewMemory(memory) })
	for range 2 * memory / smallBody { // of which nothing arrives
		announce(t, address, "/v3/kv/put", 2*smallBody)
	}
	large := strings.Repeat(" ", 2*smallBody)
	if got := post(t, address, strings.NewReader(large)); got != http.StatusOK || await(t, "a large request", ended) != nil {
		t.Errorf("a large request: status %d", got)
	}
	const part = 64 << 10
	for range 2 * memory / (decoding * part) {
		n := announce(t, address, "/v3/kv/put", 2*part)
		if _, err := n.Write(make([]byte, part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := await(t, "a request that takes too much", ended); !errors.Is(err, errCut) {
		t.Errorf("a request that takes too much: %v", err)
	}
	if got := post(t, address, strings.NewReader("{}")); got != http.StatusOK {
		t.Errorf("a small request: status %d", got)
	}
}

// smallBody is a length that needs no room.
const smallBody = 16 << 10

// TestUnreadBodies: connections with bodies that do not arrive, and that no page reads, make place for others.
func TestUnreadBodies(t *testing.T) {
	const most = 4
	s := start(t, TowardsClients{}, most)
	for range most {
		announce(t, s.address, "/?wait", 100)
		await(t, "the page", s.entered) // so the connection has a request under way
	}
	s.release()
	for limit := time.Now().Add(time.Minute); ; {
		body, err := get(dial(t, s.address), "/")
		if err == nil && body == "here" {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("another connection gets %q, %v", body, err)
		}
	}
}

// deadlines is a connection that notes its deadlines.
type deadlines struct {
	net.Conn
	write time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }
func (d *deadlines) Write(b []byte) (int, error)        { return len(b), nil }

// TestAnswerThatNobodyReads: a client of HTTP/1 has to read in time.
func TestAnswerThatNobodyReads(t *testing.T) {
	for _, web := range []bool{false, true} {
		n := new(deadlines)
		if _, err := (&prefixed{Conn: n, web: web}).Write([]byte("x")); err != nil || n.write.IsZero() == web {
			t.Errorf("HTTP/1 %v: deadline %v, %v", web, n.write, err)
		}
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
	}), smallBody, grpcserver.NewMemory(0))
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
