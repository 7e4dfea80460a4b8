package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
)

// hour is how long certificates of tests are valid.
const hour = time.Hour

func makeIn(t *testing.T, dir string) string {
	t.Helper()
	if err := Make(dir, []string{"127.0.0.1", "localhost"}, hour); err != nil {
		t.Fatal(err)
	}
	return dir
}

func identity(t *testing.T, dir string, role Role) *Identity {
	t.Helper()
	i, err := Load(filepath.Join(dir, string(role)))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// serve runs both APIs without an implementation: a call that is allowed is answered UNIMPLEMENTED.
func serve(t *testing.T, i *Identity) string {
	t.Helper()
	return serveWith(t, i, slog.New(slog.DiscardHandler))
}

func serveWith(t *testing.T, i *Identity, log *slog.Logger) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(i.ServerOptions(log)...)
	agentv1.RegisterAgentServer(server, agentv1.UnimplementedAgentServer{})
	controllerv1.RegisterControllerServer(server, controllerv1.UnimplementedControllerServer{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func dial(t *testing.T, addr string, option grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func configure(conn *grpc.ClientConn) codes.Code {
	_, err := agentv1.NewAgentClient(conn).Configure(context.Background(), &agentv1.ConfigureRequest{})
	return status.Code(err)
}

func operate(conn *grpc.ClientConn, r *controllerv1.OperateRequest) codes.Code {
	_, err := controllerv1.NewControllerClient(conn).Operate(context.Background(), r)
	return status.Code(err)
}

func attend(t *testing.T, conn *grpc.ClientConn) codes.Code {
	t.Helper()
	stream, err := controllerv1.NewControllerClient(conn).Attend(context.Background())
	if err == nil {
		_, err = stream.Recv()
	}
	return status.Code(err)
}

func setKeyspace(conn *grpc.ClientConn) codes.Code {
	_, err := controllerv1.NewControllerClient(conn).SetKeyspace(context.Background(), &controllerv1.SetKeyspaceRequest{})
	return status.Code(err)
}

func TestRolesMayWhatTheyMay(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	server, node := identity(t, dir, Controller), identity(t, dir, Node)
	addr, nodeAddr := serve(t, server), serve(t, node)
	denials := func() uint64 { return server.Refusals().Role.Load() + node.Refusals().Role.Load() }
	drain := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}}
	lose := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_AcceptLoss{AcceptLoss: 1}}
	for _, c := range []struct {
		role                             Role
		configure, drain, accept, attend codes.Code
	}{
		{Controller, codes.Unimplemented, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied},
		{Node, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied, codes.Unimplemented},
		{Admin, codes.Unimplemented, codes.Unimplemented, codes.Unimplemented, codes.PermissionDenied},
		{Operator, codes.PermissionDenied, codes.Unimplemented, codes.PermissionDenied, codes.PermissionDenied},
		{Reader, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied, codes.PermissionDenied},
	} {
		conn := dial(t, addr, identity(t, dir, c.role).DialOption())
		toNode := dial(t, nodeAddr, identity(t, dir, c.role).DialOption())
		before, want := denials(), uint64(0)
		for what, pair := range map[string][2]codes.Code{
			"configure a node": {configure(toNode), c.configure}, "drain": {operate(conn, drain), c.drain},
			"accept a loss": {operate(conn, lose), c.accept}, "attend": {attend(t, conn), c.attend},
			"replace a keyspace's record": {setKeyspace(conn), c.drain},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s may %s: %v, want %v", c.role, what, pair[0], pair[1])
			}
			if pair[1] == codes.PermissionDenied {
				want++
			}
		}
		if got := denials() - before; got != want {
			t.Errorf("%s: %d refusals are counted, want %d", c.role, got, want)
		}
	}
}

func TestStrangersAreRefused(t *testing.T) {
	dir, other := makeIn(t, t.TempDir()), makeIn(t, t.TempDir())
	server := identity(t, dir, Node)
	addr := serve(t, server)
	if code := configure(dial(t, addr, identity(t, other, Admin).DialOption())); code != codes.Unavailable {
		t.Errorf("another authority's admin: %v", code)
	}
	if code := configure(dial(t, addr, grpc.WithTransportCredentials(insecure.NewCredentials()))); code != codes.Unavailable {
		t.Errorf("no TLS: %v", code)
	}
	pair, err := identity(t, other, Admin).pair()
	if err != nil {
		t.Fatal(err)
	}
	trusting := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*pair}})
	if code := configure(dial(t, addr, grpc.WithTransportCredentials(trusting))); code != codes.Unavailable {
		t.Errorf("another authority's admin who trusts everybody: %v", code)
	}
	if server.Refusals().Stranger.Load() == 0 {
		t.Error("no stranger is counted")
	}
	// A client refuses servers as servers refuse clients: other authorities, and roles that serve nothing.
	if code := configure(dial(t, serve(t, identity(t, other, Node)), identity(t, dir, Admin).DialOption())); code != codes.Unavailable {
		t.Errorf("another authority's server: %v", code)
	}
	if code := configure(dial(t, serve(t, identity(t, dir, Admin)), identity(t, dir, Admin).DialOption())); code != codes.Unavailable {
		t.Errorf("an admin that serves: %v", code)
	}
}

// TestServersHaveRolesToo: a node is not believed to be a controller, nor a controller to be a node; but a node passes maps on.
func TestServersHaveRolesToo(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	node, controller := identity(t, dir, Node), identity(t, dir, Controller)
	drain := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}}
	conn := dial(t, serve(t, node), identity(t, dir, Admin).DialOption())
	if code := operate(conn, drain); code != codes.PermissionDenied {
		t.Errorf("an admin drains a node by way of another node: %v", code)
	}
	if got := node.Refusals().Role.Load(); got != 0 {
		t.Error("the call reached the node")
	}
	if code := attend(t, dial(t, serve(t, node), identity(t, dir, Node).DialOption())); code != codes.PermissionDenied {
		t.Errorf("a node attends at a node: %v", code)
	}
	stream, err := controllerv1.NewControllerClient(conn).Map(t.Context(), &controllerv1.MapRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a map from a node: %v", err)
	}
	if code := configure(dial(t, serve(t, controller), identity(t, dir, Admin).DialOption())); code != codes.PermissionDenied {
		t.Errorf("an admin configures a controller: %v", code)
	}
}

// TestNamesOfServers: a controller is one of those that its certificate names.
func TestNamesOfServers(t *testing.T) {
	dir := t.TempDir()
	if err := Make(dir, []string{"192.0.2.1"}, hour); err != nil {
		t.Fatal(err)
	}
	drain := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}}
	addr := serve(t, identity(t, dir, Controller))
	if code := operate(dial(t, addr, identity(t, dir, Admin).DialOption()), drain); code != codes.Unavailable {
		t.Errorf("a controller at an address that is not its own: %v", code)
	}
	if err := Renew(dir, []string{"192.0.2.1", "127.0.0.1"}, hour); err != nil {
		t.Fatal(err)
	}
	if code := operate(dial(t, addr, identity(t, dir, Admin).DialOption()), drain); code != codes.Unimplemented {
		t.Errorf("a controller at its address: %v", code)
	}
}

// TestRevokedCertificates: clients and servers are refused from the next call on, without a restart.
func TestRevokedCertificates(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	server := identity(t, dir, Node)
	conn := dial(t, serve(t, server), identity(t, dir, Admin).DialOption())
	if code := configure(conn); code != codes.Unimplemented {
		t.Fatalf("before: %v", code)
	}
	stolen := filepath.Join(t.TempDir(), certFile)
	text, err := os.ReadFile(filepath.Join(dir, string(Admin), certFile))
	if err == nil {
		err = os.WriteFile(stolen, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	thief := copyOf(t, filepath.Join(dir, string(Admin)))
	if err := Renew(dir, nil, hour); err != nil {
		t.Fatal(err)
	}
	if err := Revoke(dir, []string{stolen}); err != nil {
		t.Fatal(err)
	}
	if code := configure(conn); code != codes.Unauthenticated {
		t.Errorf("a revoked admin's connection: %v", code)
	}
	addr := serve(t, server)
	if code := configure(dial(t, addr, thief.DialOption())); code != codes.Unavailable {
		t.Errorf("a revoked admin: %v", code)
	}
	if code := configure(dial(t, addr, identity(t, dir, Admin).DialOption())); code != codes.Unimplemented {
		t.Errorf("the new admin: %v", code)
	}
	if server.Refusals().Revoked.Load() < 2 {
		t.Errorf("%d refusals are counted", server.Refusals().Revoked.Load())
	}
	if err := Revoke(dir, []string{filepath.Join(dir, string(Node), certFile)}); err != nil {
		t.Fatal(err)
	}
	if code := configure(dial(t, addr, identity(t, dir, Admin).DialOption())); code == codes.Unimplemented {
		t.Error("a revoked server is believed")
	}
	if _, err := Load(filepath.Join(dir, string(Node))); !errors.Is(err, ErrRevoked) {
		t.Errorf("loading a revoked identity: %v", err)
	}
	forged := filepath.Join(dir, string(Admin), revokedFile)
	if other := makeIn(t, t.TempDir()); os.Rename(filepath.Join(other, string(Admin), revokedFile), forged) != nil {
		t.Fatal("no list")
	}
	if _, err := Load(filepath.Join(dir, string(Admin))); err == nil {
		t.Error("a list of another authority is taken")
	}
}

// copyOf is an identity in a directory of its own, whose files do not change.
func copyOf(t *testing.T, dir string) *Identity {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{certFile, keyFile, authorityFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	i, err := Load(to)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestKeysAreSecret(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	if err := os.Chmod(filepath.Join(dir, string(Admin), keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, string(Admin))); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that everyone may read: %v", err)
	}
}

// TestExpiredCertificates uses one that was valid when it was loaded, as a process has it that runs for long.
func TestExpiredCertificates(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	server := identity(t, dir, Node)
	addr := serve(t, server)
	admin := identity(t, dir, Admin)
	if err := Renew(dir, nil, -time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, string(Admin))); err == nil || !strings.Contains(err.Error(), "netcraq certs renew") {
		t.Errorf("loading an expired certificate: %v", err)
	}
	if code := configure(dial(t, addr, admin.DialOption())); code != codes.Unimplemented {
		t.Errorf("files that expired in the place of valid ones stop a process that runs: %v", code)
	}
	if code := configure(dial(t, addr, expiredIdentity(t, dir).DialOption())); code != codes.Unavailable {
		t.Errorf("an expired admin: %v", code)
	}
	if server.Refusals().Expired.Load() == 0 {
		t.Error("no expired certificate is counted")
	}
}

// expiredIdentity presents the certificate in the files although it has expired.
func expiredIdentity(t *testing.T, dir string) *Identity {
	t.Helper()
	i := identity(t, makeIn(t, t.TempDir()), Admin)
	i.dir = filepath.Join(dir, string(Admin))
	cert, key, authority := i.Files()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	modified, err := i.times()
	if err != nil {
		t.Fatal(err)
	}
	i.loaded, i.modified = &loaded{pair, roots, new(revoked)}, modified
	return i
}

func TestCertificatesAreReplacedWhileRunning(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	admin := identity(t, dir, Admin)
	before, err := admin.pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := Renew(dir, nil, 2*hour); err != nil {
		t.Fatal(err)
	}
	after, err := admin.pair()
	if err != nil {
		t.Fatal(err)
	}
	if before.Leaf.SerialNumber.Cmp(after.Leaf.SerialNumber) == 0 {
		t.Error("the old certificate is still in use")
	}
}

func TestMakeReplacesNothing(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	if err := Make(dir, nil, hour); err == nil {
		t.Error("a second authority in the same place")
	}
	info, err := os.Stat(filepath.Join(dir, authorityDir, keyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authority's key: %v, %v", info.Mode(), err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "netcraq certs make") {
		t.Errorf("an empty directory as identity: %v", err)
	}
}

// TestHostsWithoutPorts: a controller's address with a port is refused before anything is made, because no client would
// accept the certificate.
func TestHostsWithoutPorts(t *testing.T) {
	made := makeIn(t, t.TempDir())
	for _, host := range []string{"192.0.2.1:4413", "controller.example:4413", "http://192.0.2.1", "", "a b"} {
		dir := filepath.Join(t.TempDir(), "certs")
		if err := Make(dir, []string{"192.0.2.1", host}, hour); err == nil || !strings.Contains(err.Error(), "without a port") {
			t.Errorf("certificates for %q: %v", host, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("something was made for %q: %v", host, err)
		}
		if err := Renew(made, []string{host}, hour); err == nil {
			t.Errorf("certificates are renewed for %q", host)
		}
	}
	for _, host := range []string{"192.0.2.1", "2001:db8::1", "c1", "c1.example.com", "*.example.com"} {
		if err := Renew(made, []string{host}, hour); err != nil {
			t.Errorf("no certificate for %q: %v", host, err)
		}
	}
}

// TestEveryCallHasARole fails when a call is added to the APIs and not to the policy.
func TestEveryCallHasARole(t *testing.T) {
	for _, service := range []grpc.ServiceDesc{agentv1.Agent_ServiceDesc, controllerv1.Controller_ServiceDesc} {
		var names []string
		for _, m := range service.Methods {
			names = append(names, m.MethodName)
		}
		for _, s := range service.Streams {
			names = append(names, s.StreamName)
		}
		for _, name := range names {
			if method := "/" + service.ServiceName + "/" + name; len(allowed[method]) == 0 {
				t.Errorf("nobody may call %s", method)
			}
		}
	}
}

// Renewed without addresses, the controllers' certificate keeps those that it has; where it cannot be read nothing is made.
func TestRenewKeepsHosts(t *testing.T) {
	dir := t.TempDir()
	want := []string{"controller.example", "192.0.2.1", "192.0.2.2"}
	if err := Make(dir, want, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := Renew(dir, nil, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if hosts, err := Hosts(dir); err != nil || !slices.Equal(hosts, want) {
		t.Errorf("%v, %v", hosts, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, string(Controller))); err != nil {
		t.Fatal(err)
	}
	if err := Renew(dir, nil, time.Hour); err == nil {
		t.Error("a certificate without names was made")
	}
	if err := Renew(dir, want[:1], time.Hour); err != nil {
		t.Error(err)
	}
}

// TestCertificatesOfNodes: a node's own certificate names it, is renewed and revoked with the others, and is replaced by no other.
func TestCertificatesOfNodes(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	for _, name := range []string{"n1", "127.77.1.2:4411"} {
		if err := MakeNode(dir, name, hour); err != nil {
			t.Fatal(err)
		}
		if err := MakeNode(dir, name, hour); err == nil || !strings.Contains(err.Error(), "certs renew") {
			t.Errorf("twice: %v", err)
		}
	}
	for _, name := range []string{"", "..", "a/b", "-x"} {
		if err := MakeNode(dir, name, hour); err == nil {
			t.Errorf("a node named %q", name)
		}
	}
	calls := func(is, name string) error {
		t.Helper()
		i, err := Load(NodeDir(dir, is))
		if err != nil {
			t.Fatal(err)
		}
		l, err := i.current()
		if err != nil {
			t.Fatal(err)
		}
		info := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{l.pair.Leaf}}}
		return CheckNode(peer.NewContext(t.Context(), &peer.Peer{AuthInfo: info}), name)
	}
	check := func() {
		t.Helper()
		if err := calls("n1", "n1"); err != nil {
			t.Error(err)
		}
		if err := calls("n1", "n2"); err == nil || !strings.Contains(err.Error(), "node n2 has the certificate of node n1") {
			t.Errorf("another node: %v", err)
		}
		if err := calls("127.77.1.2:4411", "127.77.1.2:4411"); err != nil {
			t.Error(err)
		}
	}
	check()
	if err := Renew(dir, nil, 2*hour); err != nil {
		t.Fatal(err)
	}
	check()
	if err := Revoke(dir, []string{filepath.Join(NodeDir(dir, "n1"), certFile)}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(NodeDir(dir, "n1")); !errors.Is(err, ErrRevoked) {
		t.Errorf("a revoked one: %v", err)
	}
}

// TestDirectoryWithoutAuthority: each command says which directory has no authority, and how to make one.
func TestDirectoryWithoutAuthority(t *testing.T) {
	dir := t.TempDir()
	for name, err := range map[string]error{
		"renew":  Renew(dir, nil, time.Hour),
		"node":   MakeNode(dir, "n1", time.Hour),
		"revoke": Revoke(dir, []string{"x.pem"}),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), dir+" holds no authority: `netcraq certs make") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
