package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/memory"
)

// lines collects the log lines of a command.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	wait string
	seen chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.seen != nil && strings.Contains(l.text.String(), l.wait) {
		close(l.seen)
		l.seen = nil
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns a channel that is closed when the log has a text.
func (l *lines) await(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(chan struct{})
	if l.wait, l.seen = text, seen; strings.Contains(l.text.String(), text) {
		close(seen)
		l.seen = nil
	}
	return seen
}

// The framework of etcd's tests waits for this line, and ends the process with SIGTERM, which ends the context.
func TestGatewaySaysThatItServes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan struct{})
	log := &lines{wait: "started gRPC proxy", seen: seen}
	ended := make(chan error, 1)
	go func() {
		c := newGatewayCommand()
		c.SetArgs([]string{
			"--listen-addr", "127.0.0.1:0", "--endpoints", "http://127.0.0.1:1", "--advertise-client-url", "",
			"--data-dir", t.TempDir(),
			"--auto-tls", "--insecure-skip-tls-verify", "--metrics-addr", "http://127.0.0.1:0",
		})
		c.SetErr(log)
		ended <- c.ExecuteContext(ctx)
	}()
	select {
	case <-seen:
	case err := <-ended:
		t.Fatalf("ended: %v\n%s", err, log.text.String())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if said := log.text.String(); !strings.Contains(said, "cache=false") ||
		!strings.Contains(said, "only forwards: --controllers or --cluster names the chain") {
		t.Errorf("it does not say why it does not cache: %s", said)
	} else if strings.Contains(said, "rpc error") {
		t.Errorf("it speaks as gRPC does: %s", said)
	}
}

// refusal runs a gateway and returns its error; nil: it served.
func refusal(t *testing.T, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := clitest.Execute(ctx, newGatewayCommand(), args...)
	return err
}

func TestGatewayRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--endpoints", "ftp://h:1"},
		{"--endpoints", ""},
		{"--cluster", "", "--endpoints", "127.0.0.1:1"},
		{"--controllers", "", "--endpoints", "127.0.0.1:1"},
		{"--listen", "nowhere:x", "--endpoints", "127.0.0.1:1"},
		{"--cert-file", "missing.crt", "--key-file", "missing.key", "--endpoints", "127.0.0.1:1"},
		{"--cacert", "missing.crt", "--endpoints", "127.0.0.1:1"},
		{"--auto-tls", "--self-signed-cert-validity", "0", "--endpoints", "127.0.0.1:1"},
		{"--endpoints", "http://127.0.0.1:1,https://127.0.0.1:2"},
		{"--cache-bytes", "-1", "--endpoints", "127.0.0.1:1"},
	} {
		if err := refusal(t, args...); err == nil {
			t.Errorf("%v was not refused", args)
		}
	}
}

// Errors name the flag and the value that was given.
func TestGatewayErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct{ args, want string }{
		{"--endpoints etcd", `endpoint "etcd" has no port`},
		{"--listen 127.0.0.1:0 --metrics-addr http://" + taken.Addr().String(), "name another address with --metrics-addr"},
		{"--listen " + taken.Addr().String(), "name another address with --listen"},
		{"--pin /a", "--pin has no effect without a chain"},
		{"--exclude /a", "--exclude has no effect without a chain"},
		{"--max-connections -1", "--max-connections -1: want"},
		{"--listen 127.0.0.1:0 --trusted-ca-file missing.crt", "name the gateway's certificate with --cert-file"},
	} {
		args := append(strings.Fields(test.args), "--etcd-endpoints", "127.0.0.1:1")
		if strings.Contains(test.args, "--endpoints") {
			args = strings.Fields(test.args)
		}
		err := refusal(t, args...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
		if wrong := strings.Contains(test.args, "--endpoints"); wrong && cli.ExitStatus(err, true) != cli.ExitUsage {
			t.Errorf("%v: exit status %d: systemd would start it again", test.args, cli.ExitStatus(err, true))
		}
	}
}

func TestMemoryRefuses(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string // in the error
	}{
		{[]string{"--memory", "--etcd-endpoints", "127.0.0.1:1"}, "--etcd-endpoints: not with --memory"},
		{[]string{"--memory", "--pin", "/a", "--cache-bytes", "1"}, "--cache-bytes, --pin: not with --memory"},
		{[]string{"--keyspace", "a"}, "--keyspace: only with --memory"},
		{[]string{"--memory", "--keyspace", ""}, "--keyspace: want a name"},
		{[]string{"--first-revision", "1"}, "--first-revision: only with --memory"},
		{[]string{"--memory", "--first-revision", "-1"}, "--first-revision -1: want at least 1"},
		{[]string{"--memory", "--log-entries", "5"}, "--log-entries 5: want 4096 to 1048576"},
		{[]string{"--memory", "--max-request-bytes", "-1"}, "--max-request-bytes -1"},
		{[]string{"--memory", "--cluster", "missing.yaml"}, "missing.yaml"},
	} {
		err := refusal(t, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
}

// TestQuotaWithinTheMemory: a keyspace of the default quota takes half of the memory limit at most, and the garbage
// collector keeps the process near twice the quota.
func TestQuotaWithinTheMemory(t *testing.T) {
	for _, test := range []struct{ given, limit, want int64 }{
		{0, 0, memory.DefaultQuotaBytes},
		{0, 1 << 30, 512 << 20}, // the limit of the manifests
		{0, 1 << 20, minQuota},
		{0, 1 << 40, memory.DefaultQuotaBytes},
		{100 << 20, 0, 100 << 20},
		{100 << 20, 128 << 20, 100 << 20},
	} {
		if got := quotaWithin(test.given, test.limit); got != test.want {
			t.Errorf("quota %d, limit %d: %d, want %d", test.given, test.limit, got, test.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	m := memoryFlags{quota: minQuota}
	if got := m.bounds(t.Context(), slog.New(slog.DiscardHandler)); got != minQuota {
		t.Errorf("quota %d", got)
	}
	if got := debug.SetMemoryLimit(-1); got > 2*minQuota+besides {
		t.Errorf("memory limit %d", got)
	}
}

// TestHelpNamesNoCluster: a gateway in front of an etcd uses no cluster file by default, and its help names none.
func TestHelpNamesNoCluster(t *testing.T) {
	if usage := newGatewayCommand().Flags().Lookup("cluster").Usage; strings.Contains(usage, topology.DefaultPath()) {
		t.Error(usage)
	}
}

// TestMemoryFromAFile: a gateway of a keyspace in memory takes its flags from a file, and refuses the same ones as ever.
func TestMemoryFromAFile(t *testing.T) {
	for text, want := range map[string]string{
		"memory: true\npin: [/a]\n":                "--pin",
		"memory: true\ncluster: /nowhere/c.yaml\n": "/nowhere/c.yaml",
	} {
		path := filepath.Join(t.TempDir(), "gateway.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Commands()[0]
		c.SetArgs([]string{"--config", path})
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--config") {
			t.Errorf("%q: %v, want an error about %s", text, err, want)
		}
	}
}
