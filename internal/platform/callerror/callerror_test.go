package callerror

import (
	"context"
	"errors"
	"net"
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
