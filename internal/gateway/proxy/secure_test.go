package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
		Endpoints: []string{startEtcd(t)}, Clients: TowardsClients{Auto: true, Dir: t.TempDir(), Years: 1, Least: "TLS1.3"},
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
