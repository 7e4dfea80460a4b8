package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cluster/snapshot"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// startAgents starts a chain of two nodes with their agents and returns its cluster file.
func startAgents(t *testing.T, o chain.Options) string {
	t.Helper()
	c := &topology.Cluster{Epoch: 1, Shards: o.Shards, Chains: [][]string{nil}}
	var planes []*soft.Plane
	for i := range 2 {
		p, err := soft.Listen(netip.MustParseAddrPort("127.66.6.1:0"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		name := fmt.Sprintf("n%d", i+1)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: p.Addr(), API: freeAPI(t, "127.66.6.1")})
		c.Chains[0] = append(c.Chains[0], name)
		planes = append(planes, p)
	}
	var agents []*agent.Agent
	for i, p := range planes {
		a, err := agent.New(agent.Options{
			Name: c.Nodes[i].Name, Cluster: c, Plane: p, API: c.Nodes[i].API,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, a)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- a.Serve(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	for _, a := range agents {
		if err := a.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return clitest.WriteCluster(t, c)
}

// freeAPI returns an address for an agent that is free.
func freeAPI(t *testing.T, ip string) string {
	t.Helper()
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// snapshotCommand runs backup or restore.
func snapshotCommand(args ...string) (string, error) {
	root := &cobra.Command{Use: "netcraq", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newBackupCommand(), newRestoreCommand())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestBackupCommands(t *testing.T) {
	options := chain.Options{Shards: 4, CellBytes: 64, MaxObjects: 100, MaxSessions: 100}
	from, to := startAgents(t, options), startAgents(t, options)
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := kvCommand("put", "greeting", "hello", "--cluster", from); err != nil {
		t.Fatal(err)
	}
	out, err := snapshotCommand("backup", file, "--cluster", from, "--json")
	var saved struct {
		File    string
		Objects int
		Shards  int
	}
	if err != nil || json.Unmarshal([]byte(out), &saved) != nil || saved.File != file ||
		saved.Objects != 1 || saved.Shards != 4 {
		t.Fatalf("%s, %v", out, err)
	}
	if _, err := snapshotCommand("backup", file, "--cluster", from); err == nil ||
		!strings.Contains(err.Error(), "--replace") {
		t.Errorf("a second backup to the same file: %v", err)
	}
	if out, err := snapshotCommand("backup", file, "--cluster", from, "--replace"); err != nil ||
		!strings.Contains(out, "1 objects of 4 shards") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := snapshotCommand("restore", file, "--cluster", to, "--dry-run"); err != nil ||
		!strings.Contains(out, "nothing was changed") {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := kvCommand("get", "greeting", "--cluster", to); cli.ExitStatus(cli.WithStatus("", err),
		true) != cli.ExitNotFound {
		t.Errorf("after a dry run: %v", err)
	}
	out, err = snapshotCommand("restore", file, "--cluster", to, "--json")
	var restored struct {
		Objects, Restored int
		DryRun            bool `json:"dry_run"`
	}
	if err != nil || json.Unmarshal([]byte(out), &restored) != nil || restored.Restored != 1 || restored.DryRun {
		t.Fatalf("%s, %v", out, err)
	}
	if out, err := kvCommand("get", "greeting", "--cluster", to); err != nil || out != "hello\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, args := range [][]string{
		{"backup"}, {"restore", "/nowhere/file", "--cluster", to}, {"restore", to, "--cluster", to},
		{"backup", file, "--timeout", "0s", "--cluster", from},
	} {
		if out, err := snapshotCommand(args...); err == nil || out != "" {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

// kvCommand runs the command line of one of the commands on keys.
func kvCommand(args ...string) (string, error) {
	root := &cobra.Command{Use: "netcraq", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(kv.Commands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

// TestSnapshotFilesAreCheckedFirst: a file that can be neither restored nor written is named before a cluster is asked, of
// which nothing answers here.
func TestSnapshotFilesAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"restore", filepath.Join(dir, "missing")}, "no such file"},
		{[]string{"restore", text}, snapshot.ErrNotSnapshot.Error()},
		{[]string{"backup", filepath.Join(dir, "missing", "file")}, "no such file"},
		{[]string{"backup", filepath.Join(text, "file")}, "no directory"},
		{[]string{"backup", text}, "--replace"},
	} {
		args := append(c.args, "--controllers", "127.0.0.1:1", "--timeout", "10ms")
		if _, err := snapshotCommand(args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
