package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestKeyspaceKilled kills all gateways of a keyspace and all nodes of its chain at once. When the operator has accepted
// that the chain is empty, every acknowledged write is there again.
func TestKeyspaceKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m := clitest.StartManaged(t, "127.77.61.1", "--shards", "1", "--replicas", "3", "--form-with", "3")
	dir := t.TempDir()
	var kept etcdtest.Kept
	gateways := make([]*exec.Cmd, 3)
	gateway := func(i int) (address string) {
		address = fmt.Sprintf("127.77.61.%d:2379", i+2)
		gateways[i] = m.Run(address, "keyspace", "--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--listen", address,
			"--controllers", m.Controller, "--name", "one")
		return address
	}
	for round := range 2 {
		for i := range gateways {
			m.StartNode(fmt.Sprintf("n%d", i), fmt.Sprintf("127.77.61.%d:4411", i+2))
		}
		for lost := round > 0; lost; {
			_, complained, status := m.Ask("accept-loss", "0", "--yes")
			if lost = status != 0; lost && ctx.Err() != nil {
				t.Fatal(complained)
			}
		}
		m.Await("a chain", clitest.FullyReplicated(3))
		for i := range gateways {
			gateway(i)
		}
		for i := range gateways {
			kept.Use(ctx, t, fmt.Sprintf("127.77.61.%d:2379", i+2))
		}
		for i, g := range gateways {
			clitest.Kill(g)
			clitest.Kill(m.Nodes[fmt.Sprintf("n%d", i)])
		}
	}
}

// The command refuses what cannot be right, and says what to do.
func TestKeyspaceRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	static := "nodes: [{name: n1, addr: 127.77.61.9:4411}]\nchains: [[n1]]\nepoch: 1\nshards: 1\n"
	if err := os.WriteFile(file, []byte(static), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                 "--data-dir: name the directory",
		"--durability tape --data-dir x":   "want disk or memory",
		"--durability memory --data-dir x": "keeps nothing on disks",
		"--data-dir x --name a/b":          "--name",
		"--data-dir x --quota-bytes 5":     "want at least",
		"--data-dir x --cluster " + file:   "netcraq up --keyspace",
	} {
		_, _, err := clitest.Execute(t.Context(), newKeyspaceCommand(), strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
