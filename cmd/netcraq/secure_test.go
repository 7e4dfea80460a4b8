package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/security"
	"github.com/netcraq/netcraq/wire"
)

// followAs follows the cluster with the certificate of a role.
func (m *managed) followAs(dir string, role security.Role) *follow.Follower {
	m.t.Helper()
	identity, err := security.Load(filepath.Join(dir, string(role)))
	if err != nil {
		m.t.Fatal(err)
	}
	f, err := follow.Open(m.t.Context(), follow.Options{Addrs: []string{m.controller}, Dial: []grpc.DialOption{identity.DialOption()}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { f.Close() })
	return f
}

// TestSecureCluster runs a cluster with certificates and tags, and knocks at it with too little of both.
func TestSecureCluster(t *testing.T) {
	const host = "127.77.9.1"
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{host}, formed); err != nil {
		t.Fatal(err)
	}
	of := func(role security.Role) string { return filepath.Join(dir, string(role)) }
	m := startManaged(t, host, "--shards", "4", "--tags", "--metrics", host+":4499", "--identity", of(security.Controller))
	var node string
	for i := range 3 {
		node = fmt.Sprintf("127.77.9.%d:4411", i+2)
		m.nodes[node] = m.run(node, "node", "--name", node, "--addr", node, "--join", m.controller, "--plane", "soft",
			"--identity", of(security.Node))
	}
	m.follower = m.followAs(dir, security.Admin)
	m.await("whole chains", whole(3))
	admin := m.client()
	ctx := t.Context()
	if _, err := admin.Put(ctx, "k", []byte("right")); err != nil {
		t.Fatal(err)
	}
	m.follower = m.followAs(dir, security.Reader)
	reader := m.client()
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
		if text, _, err := netcraq(append(refused, "--controllers", m.controller)...); err == nil {
			t.Errorf("%s is done: %s", strings.Join(refused, " "), text)
		}
	}
	m.forge(node)
	response, err := http.Get("http://" + host + ":4499/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(metrics), `netcraq_refused_total{reason="role"} 2`) {
		t.Errorf("refusals are not counted: %v\n%s", err, metrics)
	}
	if v, err := admin.Get(ctx, "k"); err != nil || string(v.Value) != "right" || v.Version != 1 {
		t.Errorf("after all that the key has %q, version %d, %v", v.Value, v.Version, err)
	}
}

// forge sends a node a write without a tag, which an honest node of a cluster without tags would take.
func (m *managed) forge(node string) {
	m.t.Helper()
	key, err := wire.HashKey([]byte("k"))
	if err != nil {
		m.t.Fatal(err)
	}
	conn, err := net.Dial("udp", node)
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	shard := key.Shard(m.follower.Map().Shards())
	put := wire.Message{Op: wire.OpPut, Shard: shard, Epoch: m.follower.Map().Chain(shard).Epoch, Key: key, Session: 1, Seq: 1, Value: []byte("forged")}
	if _, err := conn.Write(put.Append(nil)); err != nil {
		m.t.Fatal(err)
	}
}
