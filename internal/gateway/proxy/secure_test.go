package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/serve"
)

// oldEtcd tells of a version, and does nothing else.
type oldEtcd struct {
	pb.UnimplementedMaintenanceServer
	version string
}

func (e *oldEtcd) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Version: e.version}, nil
}

func TestOldReleasesAreRefused(t *testing.T) {
	for version, want := range map[string]string{"3.4.30": "needs 3.5", "2.3.7": "needs 3.5", "?": "not one", "3.5.0": "", "4.0.1": ""} {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		server := grpc.NewServer()
		pb.RegisterMaintenanceServer(server, &oldEtcd{version: version})
		go server.Serve(l)
		s, err := New(t.Context(), Options{
			Listen: "127.0.0.1:0", Endpoints: []string{l.Addr().String()}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("etcd %s: %v", version, err)
		}
		if err == nil {
			s.end()
			s.listener.Close()
		}
		server.Stop()
	}
}

func TestEncryptedClients(t *testing.T) {
	address := startGateway(t, Options{
		Endpoints: []string{startEtcd(t)}, Clients: serve.TowardsClients{Auto: true, Dir: t.TempDir(), Years: 1, Least: "TLS1.3"},
	})
	config := &tls.Config{InsecureSkipVerify: true} // the certificate is its own authority
	c := must(clientv3.New(clientv3.Config{Endpoints: []string{"https://" + address}, TLS: config}))(t)
	t.Cleanup(func() { c.Close() })
	must(c.Put(t.Context(), "a", "1"))(t)
	r := must((&http.Client{Transport: &http.Transport{TLSClientConfig: config}}).Get("https://" + address + "/health"))(t)
	if r.Body.Close(); r.StatusCode != http.StatusOK {
		t.Errorf("/health: %s", r.Status)
	}
	config.MaxVersion = tls.VersionTLS12
	if conn, err := tls.Dial("tcp", address, config); err == nil {
		conn.Close()
		t.Error("a version of TLS below the least was taken")
	}
}

// TestPagesOverHTTP2: a client that prefers HTTP/2, as curl does, gets pages and JSON on the port with TLS.
func TestPagesOverHTTP2(t *testing.T) {
	s, _ := startServer(t, Options{
		Endpoints: []string{startEtcd(t)}, Metrics: []string{"https://127.0.0.1:0"},
		Clients: serve.TowardsClients{Auto: true, Dir: t.TempDir(), Years: 1},
	})
	config := &tls.Config{InsecureSkipVerify: true} // the certificate is its own authority
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for _, address := range []net.Addr{s.Addr(), s.more[0].Addr()} {
		for path, want := range map[string]string{
			"/version": `"etcdserver":"3.`, "/health": `"health":"true"`, "/metrics": "etcd_server_has_leader 1", "/nothing": "404",
		} {
			r := must(client.Get("https://" + address.String() + path))(t)
			body := must(io.ReadAll(r.Body))(t)
			if r.Body.Close(); r.ProtoMajor != 2 || !strings.Contains(string(body), want) {
				t.Errorf("%s%s: %s %s, without %q", address, path, r.Proto, r.Status, want)
			}
		}
	}
	url := "https://" + s.Addr().String() + "/v3/"
	watch := must(client.Post(url+"watch", "application/json", strings.NewReader(`{"create_request":{"key":"YQ=="}}`)))(t)
	defer watch.Body.Close()
	lines := bufio.NewScanner(watch.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"created":true`) {
		t.Errorf("a watch as JSON begins with %q, %v", lines.Text(), lines.Err())
	}
	put := must(client.Post(url+"kv/put", "application/json", strings.NewReader(`{"key":"YQ==","value":"MQ=="}`)))(t)
	if put.Body.Close(); put.StatusCode != http.StatusOK || put.ProtoMajor != 2 {
		t.Errorf("put as JSON: %s %s", put.Proto, put.Status)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), `"value":"MQ=="`) {
		t.Errorf("the event as JSON is %q, %v", lines.Text(), lines.Err())
	}
}

// TestSilentClients: a client that does not say which protocol it speaks loses its connection.
func TestSilentClients(t *testing.T) {
	etcd := startEtcd(t)
	plain := startGateway(t, Options{Endpoints: []string{etcd}})
	secure := startGateway(t, Options{
		Endpoints: []string{etcd}, Clients: serve.TowardsClients{Auto: true, Dir: t.TempDir(), Years: 1},
	})
	config := &tls.Config{InsecureSkipVerify: true} // the certificate is its own authority
	for name, c := range map[string]net.Conn{
		"plain":          must(net.Dial("tcp", plain))(t),
		"secure":         must(tls.Dial("tcp", secure, config))(t),
		"half a preface": must(net.Dial("tcp", plain))(t),
		"no handshake":   must(net.Dial("tcp", secure))(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer c.Close()
			if name == "half a preface" {
				must(io.WriteString(c, http2.ClientPreface[:10]))(t)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is open after a minute")
			}
		})
	}
}

// TestTokens: with etcd's authentication enabled, a client's name and password count, and forbidden calls fail with etcd's
// code.
func TestTokens(t *testing.T) {
	address := startGateway(t, Options{Endpoints: []string{startEtcd(t)}})
	c, ctx := open(t, address), t.Context()
	must(c.UserAdd(ctx, "root", "r"))(t)
	must(c.UserGrantRole(ctx, "root", "root"))(t)
	must(c.UserAdd(ctx, "ann", "a"))(t)
	must(c.RoleAdd(ctx, "reader"))(t)
	must(c.RoleGrantPermission(ctx, "reader", "k", "", clientv3.PermissionType(clientv3.PermRead)))(t)
	must(c.UserGrantRole(ctx, "ann", "reader"))(t)
	must(c.AuthEnable(ctx))(t)
	ann := must(clientv3.New(clientv3.Config{Endpoints: []string{address}, Username: "ann", Password: "a"}))(t)
	t.Cleanup(func() { ann.Close() })
	must(ann.Get(ctx, "k"))(t)
	if _, err := ann.Put(ctx, "k", "v"); status.Code(err) != codes.PermissionDenied && !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a write that is not allowed: %v", err)
	}
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Error("a read without a token")
	}
}
