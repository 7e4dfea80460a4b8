package callerror

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// call returns the error of a call to a target.
func call(t *testing.T, target string, c credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return conn.Invoke(ctx, "/none/None", new(emptypb.Empty), new(emptypb.Empty))
}

// listen has take answer connections.
func listen(t *testing.T, take func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			n, err := l.Accept()
			if err != nil {
				return
			}
			take(n)
		}
	}()
	return l.Addr().String()
}

func TestText(t *testing.T) {
	closed := listen(t, func(n net.Conn) { // only its own direction: the client's writes succeed
		n.(*net.TCPConn).CloseWrite()
		t.Cleanup(func() { n.Close() })
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	plain := insecure.NewCredentials()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nobody":       {call(t, nobody, plain), "nothing answers there: is it running?"},
		"no name":      {call(t, "nobody.invalid:1", plain), "the name nobody.invalid has no address"},
		"closed":       {call(t, closed, plain), "whoever answers there expects another kind of connection"},
		"no TLS":       {call(t, closed, credentials.NewTLS(nil)), "handshake"},
		"broken pipe":  {status.Error(codes.Unavailable, "write tcp 127.0.0.1:1->127.0.0.1:2: write: broken pipe"), "the connection broke"},
		"a server":     {status.Error(codes.Unavailable, "there is no leader"), "there is no leader"},
		"late":         {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "no answer in time"},
		"not a status": {errors.New("the disk is full"), "the disk is full"},
	} {
		if got := Text(c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q for %v, want %q", name, got, c.err, c.want)
		}
	}
}

// A certificate that is refused is told from other trouble, on either side.
func TestBadCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	closed := listen(t, func(n net.Conn) { n.Close() })
	refusal := status.Error(codes.Unavailable, // as it comes unless the connection breaks before
		"connection error: desc = \"error reading server preface: remote error: tls: certificate required\"")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the client refuses": {call(t, server.Listener.Addr().String(), credentials.NewTLS(nil)), true},
		"the server refuses": {refusal, true},
		"no TLS":             {call(t, closed, credentials.NewTLS(nil)), false},
		"a server":           {status.Error(codes.Unavailable, "there is no certificate"), false},
		"nothing":            {nil, false},
	} {
		if got := BadCertificate(c.err); got != c.want {
			t.Errorf("%s: %t for %v", name, got, c.err)
		}
	}
}
