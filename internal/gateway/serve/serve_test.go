package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// watchedLog tells of each line that is logged.
type watchedLog struct {
	lines chan string
}

func (w *watchedLog) Write(b []byte) (int, error) {
	w.lines <- string(b)
	return len(b), nil
}

// await waits for a line.
func (w *watchedLog) await(t *testing.T, part string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line := <-w.lines:
			if strings.Contains(line, part) {
				return
			}
		case <-limit:
			t.Fatalf("nothing was logged with %q", part)
		}
	}
}

// started is a server of one page, /, whose answer waits if the query says so.
type started struct {
	server  *Server
	address string
	log     *watchedLog
	entered chan struct{} // a page that waits
	leave   chan struct{} // closed by release, which the end of the test calls too
	release func()
}

// await waits for a value that another goroutine sends, so that a test whose server does nothing fails at once.
func await[T any](t *testing.T, what string, values <-chan T) T {
	t.Helper()
	select {
	case v := <-values:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
		panic("not reached")
	}
}

// awaitIdle waits until a connection has no request under way. The client may have its answer before.
func (s *started) awaitIdle(t *testing.T) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for {
		s.server.open.mu.Lock()
		idle := s.server.open.oldestIdle()
		s.server.open.mu.Unlock()
		if idle != nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("every connection has a request under way, a minute after an answer")
		}
		runtime.Gosched()
	}
}

func start(t *testing.T, c TowardsClients, most int) *started {
	t.Helper()
	s := &started{
		log: &watchedLog{make(chan string, 1000)}, entered: make(chan struct{}, 100), leave: make(chan struct{}),
	}
	s.release = sync.OnceFunc(func() { close(s.leave) })
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "wait" {
			s.entered <- struct{}{}
			<-s.leave
		}
		io.WriteString(w, "here")
	})
	calls := grpcserver.New(grpcserver.Options{
		Page: pages, Unary: func(string) bool { return false },
		Handle: func(string, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "") },
	})
	s.server = New(calls, pages, most, slog.New(slog.NewTextHandler(s.log, nil)))
	l, err := Listen("--listen", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := s.server.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.release()
		cancel()
		ended.Wait()
		over, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		s.server.Stop(over)
	})
	return s
}

func selfSigned(t *testing.T) TowardsClients {
	return TowardsClients{Auto: true, Dir: t.TempDir(), Years: 1}
}

// dial connects, with a deadline for the whole test.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	n, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if err := n.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return n
}

// get asks for a page on a connection.
func get(n net.Conn, path string) (string, error) {
	if _, err := io.WriteString(n, "GET "+path+" HTTP/1.1\r\nHost: gateway\r\n\r\n"); err != nil {
		return "", err
	}
	r, err := http.ReadResponse(bufio.NewReader(n), nil)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

// TestDescriptorsRunOut: a server that could not accept for want of descriptors accepts again, with TLS and without.
func TestDescriptorsRunOut(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = min(limit.Cur, 512)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	for name, c := range map[string]TowardsClients{"plain": {}, "tls": selfSigned(t)} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c, 0)
			address, err := net.ResolveTCPAddr("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			taken := takeDescriptors(t)
			server := &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte{127, 0, 0, 1}}
			err = eintr.Retry(func() error { return unix.Connect(socket, server) })
			if err != nil {
				t.Fatal(err)
			}
			s.log.await(t, "connections wait to be accepted")
			for _, f := range taken {
				f.Close()
			}
			file := os.NewFile(uintptr(socket), "client")
			n, err := net.FileConn(file)
			if file.Close(); err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			if err := n.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if c.Encrypts() {
				n = tls.Client(n, &tls.Config{InsecureSkipVerify: true}) // the certificate is its own authority
			}
			if page, err := get(n, "/"); page != "here" {
				t.Errorf("after the shortage: %q, %v", page, err)
			}
		})
	}
}

// TestAccepting: a server that accepts no connection for long says so, and no more once it accepts one.
func TestAccepting(t *testing.T) {
	s := start(t, TowardsClients{}, 0).server
	check := func(want string) {
		t.Helper()
		if err := s.Accepting().Run(t.Context()); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	check("<nil>")
	s.accepting(unix.EMFILE)
	check("<nil>") // for a moment
	if since := s.stuck.Load().String(); !strings.Contains(since, " m=") {
		t.Error("a jump of the clock on the wall counts as a shortage")
	}
	past := time.Now().Add(-stuckAfter - time.Second)
	s.stuck.Store(&past)
	check("no connection can be accepted")
	s.accepting(nil)
	check("<nil>")
}

// takeDescriptors opens files until there are no more descriptors.
func takeDescriptors(t *testing.T) (taken []*os.File) {
	t.Helper()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return taken
		}
		taken = append(taken, f)
		t.Cleanup(func() { f.Close() })
	}
}

// TestConnectionsAreLimited: at the limit the oldest connection without a request ends, and one with a request stays.
func TestConnectionsAreLimited(t *testing.T) {
	s := start(t, TowardsClients{}, 2)
	busy := s.waiting(t)
	idle := dial(t, s.address)
	if page, err := get(idle, "/"); page != "here" {
		t.Fatalf("%q, %v", page, err)
	}
	s.awaitIdle(t)
	next := s.waiting(t)
	s.log.await(t, "the limit of connections is reached")
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection is open, or was not closed: %v", err)
	}
	if page, err := get(dial(t, s.address), "/"); err == nil {
		t.Errorf("all connections have requests under way, and a new one got %q", page)
	}
	s.release()
	for _, answer := range []<-chan string{busy, next} {
		if page := await(t, "the answer of a busy connection", answer); page != "here" {
			t.Errorf("a busy connection got %q", page)
		}
	}
}

// waiting connects and asks for a page that waits. It returns when the page has been entered.
func (s *started) waiting(t *testing.T) (answer <-chan string) {
	t.Helper()
	n, result := dial(t, s.address), make(chan string, 1)
	go func() {
		page, err := get(n, "/?wait")
		if err != nil {
			page = err.Error()
		}
		result <- page
	}()
	select {
	case <-s.entered:
	case page := <-result:
		t.Fatalf("a page that waits has the answer %q", page)
	}
	return result
}

// TestIdleCallersMakePlace: a connection of HTTP/2 without a call is told to go away.
func TestIdleCallersMakePlace(t *testing.T) {
	s := start(t, TowardsClients{}, 1)
	n := dial(t, s.address)
	if _, err := io.WriteString(n, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(n, n)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if _, err := framer.ReadFrame(); err != nil {
		t.Fatal(err)
	}
	if page, err := get(dial(t, s.address), "/"); page != "here" {
		t.Errorf("%q, %v", page, err)
	}
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			if g.ErrCode != http2.ErrCodeNo {
				t.Errorf("%v", g)
			}
			return
		}
	}
}

// TestSlowHandshakes: clients that begin a handshake and stop delay no other.
func TestSlowHandshakes(t *testing.T) {
	s := start(t, selfSigned(t), 0)
	for range 100 {
		if _, err := dial(t, s.address).Write([]byte{22, 3, 1}); err != nil { // the first bytes of a handshake
			t.Fatal(err)
		}
	}
	n := tls.Client(dial(t, s.address), &tls.Config{InsecureSkipVerify: true})
	if page, err := get(n, "/"); page != "here" {
		t.Errorf("%q, %v", page, err)
	}
}

// TestSniff: a client is taken for one of HTTP/2 by its whole preface only, and for one of HTTP/1 by its method.
func TestSniff(t *testing.T) {
	for text, want := range map[string]string{
		http2.ClientPreface + "x": "calls", "GET / HTTP/1.1\r\n": "page", "POST ": "page", "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n": "",
		"INVALID PREFACE": "", "PRI": "", "PO": "", "\x16\x03\x01": "",
	} {
		near, far := net.Pipe()
		go func() {
			io.Copy(near, bytes.NewReader([]byte(text)))
			near.Close()
		}()
		prefix, calls, err := sniff(far)
		got := "page"
		switch {
		case err != nil:
			got = ""
		case calls:
			got = "calls"
		}
		if got != want || err == nil && !strings.HasPrefix(text, string(prefix)) {
			t.Errorf("%q: %q, %q, %v", text, got, prefix, err)
		}
		far.Close()
	}
}

// TestRevokedCertificates: a client whose certificate is on the list of revoked ones is refused, also by one that is
// written while the server runs.
func TestRevokedCertificates(t *testing.T) {
	info, err := transport.SelfCert(zap.NewNop(), t.TempDir(), []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "revoked.crl")
	revoke := func(serial *big.Int) {
		issuer := *pair.Leaf
		issuer.KeyUsage |= x509.KeyUsageCRLSign // the check reads the numbers alone
		issuer.SubjectKeyId = []byte{1}
		text, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
			Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: serial, RevocationTime: time.Now()}},
		}, &issuer, pair.PrivateKey.(crypto.Signer))
		if err == nil {
			err = os.WriteFile(list, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	revoke(big.NewInt(1))
	s := start(t, TowardsClients{Cert: info.CertFile, Key: info.KeyFile, CA: info.CertFile, Revoked: list}, 0)
	ask := func() (string, error) {
		return get(tls.Client(dial(t, s.address), &tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{pair},
		}), "/")
	}
	if page, err := ask(); page != "here" {
		t.Errorf("a certificate that is not revoked: %q, %v", page, err)
	}
	revoke(pair.Leaf.SerialNumber)
	if page, err := ask(); err == nil {
		t.Errorf("a revoked certificate: %q", page)
	}
}
