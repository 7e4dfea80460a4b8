package lab

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestUpKeyspaceKilled kills all gateways of `netcraq up --keyspace` and all nodes of its chain at once, as a power failure
// of the machine does, and finds every acknowledged write again.
func TestUpKeyspaceKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir, runtime := t.TempDir(), t.TempDir()
	var kept etcdtest.Kept
	for range 3 {
		up := exec.CommandContext(ctx, os.Args[0], "up", "--plane", "soft", "--keyspace", "--data-dir", dir, "--etcd-listen", "127.0.0.1:0")
		up.Env = append(os.Environ(), clitest.AsCommand+"=1", "XDG_RUNTIME_DIR="+runtime)
		up.Stderr = t.Output()
		output, err := up.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		said := readUntil(output, "Ctrl-C")
		found := regexp.MustCompile(`--endpoints (\S+) put`).FindStringSubmatch(said)
		if found == nil {
			t.Fatalf("no line for etcdctl:\n%s", said)
		}
		go io.Copy(io.Discard, output)
		endpoints := strings.Split(found[1], ",")
		if len(endpoints) != keyspaceGateways {
			t.Errorf("gateways %v", endpoints)
		}
		for _, endpoint := range endpoints {
			kept.Use(ctx, t, endpoint)
		}
		if err := up.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = up.Wait() // it was killed
	}
}
