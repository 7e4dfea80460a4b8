package controller

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/wire"
)

// followAs follows the cluster with the certificate of a role.
func followAs(m *clitest.Managed, dir string, role security.Role) *follow.Follower {
	m.T.Helper()
	identity, err := security.Load(filepath.Join(dir, string(role)))
	if err != nil {
		m.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.T.Context(), clitest.Formed)
	defer cancel()
	f, err := follow.Open(ctx, follow.Options{Addrs: []string{m.Controller},
		Dial: []grpc.DialOption{identity.DialOption()}})
	if err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { f.Close() })
	return f
}

// TestSecureCluster runs a cluster with certificates and tags, and knocks at it with too little of both.
func TestSecureCluster(t *testing.T) {
	const host = "127.77.9.1"
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{host}, clitest.Formed); err != nil {
		t.Fatal(err)
	}
	of := func(role security.Role) string { return filepath.Join(dir, string(role)) }
	m := clitest.StartManaged(t, host, "--shards", "4", "--tags", "--metrics", host+":4499", "--identity",
		of(security.Controller))
	var node string
	for i := range 3 {
		node = fmt.Sprintf("127.77.9.%d:4411", i+2)
		m.Nodes[node] = m.Run(node, "node", "--name", node, "--addr", node, "--join", m.Controller, "--plane", "soft",
			"--identity", of(security.Node))
	}
	m.Follower = followAs(m, dir, security.Admin)
	m.Await("fully replicated chains", clitest.FullyReplicated(3))
	operator := m.Client()
	ctx := t.Context()
	if _, err := operator.Put(ctx, "k", []byte("right")); err != nil {
		t.Fatal(err)
	}
	m.Follower = followAs(m, dir, security.Reader)
	reader := m.Client()
	if v, err := reader.Get(ctx, "k"); err != nil || string(v.Value) != "right" {
		t.Errorf("a reader reads %q, %v", v.Value, err)
	}
	if _, err := reader.Put(ctx, "k", []byte("wrong")); !errors.Is(err, client.ErrDenied) {
		t.Errorf("a reader writes: %v", err)
	}
	for _, refused := range [][]string{
		{"drain", node, "--identity", of(security.Reader)},
		{"drain", node, "--timeout", "2s"},
		{"accept-loss", "1", "--yes", "--identity", of(security.Operator)},
	} {
		if text, _, err := clitest.Netcraq(append(refused, "--controllers", m.Controller)...); err == nil {
			t.Errorf("%s is done: %s", strings.Join(refused, " "), text)
		}
	}
	forge(m, node)
	response, err := http.Get("http://" + host + ":4499/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(metrics), `netcraq_refused_total{reason="role"} 2`) {
		t.Errorf("refusals are not counted: %v\n%s", err, metrics)
	}
	if v, err := operator.Get(ctx, "k"); err != nil || string(v.Value) != "right" || v.Version != 1 {
		t.Errorf("after all that the key has %q, version %d, %v", v.Value, v.Version, err)
	}
}

// TestNodesHaveTheirNames: each node has a certificate of its own. Another name is refused at the registration, and a node that
// is in no chain gets no copies.
func TestNodesHaveTheirNames(t *testing.T) {
	const host = "127.77.11.1"
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{host}, clitest.Formed); err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, "certs", "node", dir, "n1", "n2", "n3", "n4", "n9")
	m := clitest.StartManaged(t, host, "--shards", "4", "--replicas", "3", "--form-with", "3",
		"--identity", filepath.Join(dir, string(security.Controller)))
	start := func(i int) string {
		name, addr := fmt.Sprintf("n%d", i), fmt.Sprintf("127.77.11.%d:4411", i+1)
		m.Nodes[name] = m.Run(name, "node", "--name", name, "--addr", addr, "--join", m.Controller, "--plane", "soft",
			"--identity", security.NodeDir(dir, name))
		return addr
	}
	for i := range 3 {
		start(i + 1)
	}
	m.Follower = followAs(m, dir, security.Admin)
	m.Await("fully replicated chains", clitest.FullyReplicated(3))
	start(4)
	clitest.Kill(m.Nodes["n3"])
	m.Await("a copy to the new node", func(now *topology.Map) bool {
		return clitest.FullyReplicated(3)(now) && slices.ContainsFunc(now.Chains, func(c topology.MapChain) bool {
			return slices.Contains(now.Names(&c), "n4")
		})
	})
	_, _, err := clitest.Netcraq("node", "--name", "n5", "--addr", "127.77.11.99:4411", "--join", m.Controller, "--plane", "soft",
		"--identity", security.NodeDir(dir, "n9"))
	if err == nil || !strings.Contains(err.Error(), "node n5 has the certificate of node n9") ||
		!strings.Contains(err.Error(), "netcraq certs node DIRECTORY n5") {
		t.Errorf("another node's certificate: %v", err)
	}
	identity, err := security.Load(security.NodeDir(dir, "n9"))
	if err != nil {
		t.Fatal(err)
	}
	api, conn, err := agent.Dial("127.77.11.2:4412", identity.DialOption())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	chain := m.Follower.Map().Chain(0)
	stream, err := api.Export(t.Context(), &agentv1.ExportRequest{
		Shards: []*agentv1.ExportShards{{Epoch: chain.Epoch, Shards: []uint32{0}}},
	})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "node n9, which is in no chain") {
		t.Errorf("a copy for a stranger: %v", err)
	}
}

// secureControllers starts three controllers with certificates and tags at hosts 1 to 3 of a network such as 127.77.10,
// and three nodes. flags are further ones of a controller.
func secureControllers(t *testing.T, network string, flags func(i int) []string) (m *clitest.Managed,
	controllers []*exec.Cmd, hosts []string, dir string) {
	t.Helper()
	names := []string{"ctl1", "ctl2", "ctl3"}
	var initial []string
	for i, name := range names {
		hosts = append(hosts, fmt.Sprintf("%s.%d", network, i+1))
		initial = append(initial, name+"="+hosts[i])
	}
	dir = filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, hosts, clitest.Formed); err != nil {
		t.Fatal(err)
	}
	of := func(role security.Role) string { return filepath.Join(dir, string(role)) }
	m = &clitest.Managed{T: t, Controller: hosts[0] + ":4413", Nodes: make(map[string]*exec.Cmd)}
	for i, name := range names {
		controllers = append(controllers, m.Run(name, append([]string{"controller", "--name", name, "--listen", hosts[i],
			"--data-dir", t.TempDir(), "--initial-cluster", strings.Join(initial, ","), "--shards", "4", "--tags",
			"--identity", of(security.Controller)}, flags(i)...)...))
	}
	for i := range 3 {
		node := fmt.Sprintf("%s.%d:4411", network, i+10)
		m.Nodes[node] = m.Run(node, "node", "--name", node, "--addr", node, "--join",
			strings.Join(hosts, ","), "--plane", "soft", "--identity", of(security.Node))
	}
	m.Follower = followAs(m, dir, security.Admin)
	m.Await("fully replicated chains", clitest.FullyReplicated(3))
	return m, controllers, hosts, dir
}

// TestSecureControllers: with certificates and tags, too, the death of one of three controllers, whichever leads, takes
// nothing from clients.
func TestSecureControllers(t *testing.T) {
	m, controllers, hosts, dir := secureControllers(t, "127.77.10", func(int) []string { return nil })
	of := func(role security.Role) string { return filepath.Join(dir, string(role)) }
	operator := m.Client()
	ctx := t.Context()
	if _, err := operator.Put(ctx, "k", []byte("before")); err != nil {
		t.Fatal(err)
	}
	text, _, err := clitest.Netcraq("status", "--json", "--identity", of(security.Reader), "--controllers", m.Controller)
	if err != nil {
		t.Fatal(err)
	}
	var status admin.Snapshot
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	leading := slices.Index(hosts, strings.TrimSuffix(status.Leader, ":4413"))
	if leading < 0 {
		t.Fatalf("no leader: %s", text)
	}
	for role, want := range map[security.Role]bool{security.Controller: true, security.Admin: false} {
		if got := taken(t, hosts[0]+":4414", of(role)); got != want {
			t.Errorf("the peers of etcd take a certificate of role %s: %t", role, got)
		}
	}
	clitest.Kill(controllers[leading])
	for i := range 20 {
		if _, err := operator.Put(ctx, "k", fmt.Appendf(nil, "after %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := operator.Get(ctx, "k"); err != nil || string(v.Value) != "after 19" || v.Version != 21 {
		t.Errorf("%q, version %d, %v", v.Value, v.Version, err)
	}
}

// taken reports whether a server that speaks HTTP over TLS takes the certificate in a directory.
func taken(t *testing.T, address, dir string) bool {
	t.Helper()
	identity, err := security.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, _ := identity.Files()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	// the server's identity does not matter here
	conn, err := tls.Dial("tcp", address, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /version HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1)) // the server judges after its client is done with the handshake
	return err == nil
}

// forge sends a node a write without a tag, which an honest node of a cluster without tags would take.
func forge(m *clitest.Managed, node string) {
	m.T.Helper()
	key, err := wire.HashKey([]byte("k"))
	if err != nil {
		m.T.Fatal(err)
	}
	conn, err := net.Dial("udp", node)
	if err != nil {
		m.T.Fatal(err)
	}
	defer conn.Close()
	shard := key.Shard(m.Follower.Map().Shards())
	put := wire.Message{Op: wire.OpPut, Shard: shard, Epoch: m.Follower.Map().Chain(shard).Epoch, Key: key, Session: 1,
		Seq: 1, Value: []byte("forged")}
	if _, err := conn.Write(put.Append(nil)); err != nil {
		m.T.Fatal(err)
	}
}
