package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
	"github.com/netcraq/netcraq/internal/verify/metricspage"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// asVariable has the test's program run as etcd, or as the program of this package.
const asVariable = "PROGRAM_TEST_AS"

func TestMain(m *testing.M) {
	args := append([]string{"etcd"}, os.Args[1:]...)
	switch os.Getenv(asVariable) {
	case "etcd":
		etcdmain.Main(args)
		os.Exit(0)
	case "program":
		Main(args)
	}
	os.Exit(m.Run())
}

// server is a server that runs as a process of its own.
type server struct {
	t            *testing.T
	name, dir    string
	client, peer string
	initial      string
	process      *exec.Cmd
	log          buffer
	api          *clientv3.Client
}

// buffer is the output of a process.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// servers makes three servers of one cluster, which do not run yet.
func servers(t *testing.T) []*server {
	t.Helper()
	dir := t.TempDir()
	var all []*server
	var initial []string
	for i := range 3 {
		s := &server{
			t: t, name: fmt.Sprintf("m%d", i), dir: filepath.Join(dir, fmt.Sprintf("m%d.etcd", i)),
			client: "http://" + etcdtest.FreePort(t), peer: "http://" + etcdtest.FreePort(t),
		}
		all, initial = append(all, s), append(initial, s.name+"="+s.peer)
		t.Cleanup(func() {
			s.end(syscall.SIGKILL)
			if t.Failed() {
				t.Logf("%s: %s", s.name, lastLines(s.log.String(), 20))
			}
		})
	}
	for _, s := range all {
		s.initial = strings.Join(initial, ",")
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.client}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		s.api = c
	}
	return all
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// begin starts a server as etcd or as this package's program.
func (s *server) begin(as string, flags ...string) {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = exec.Command(self, append([]string{
		"--name", s.name, "--data-dir", s.dir, "--listen-client-urls", s.client, "--advertise-client-urls", s.client,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--initial-cluster", s.initial, "--unsafe-no-fsync",
	}, flags...)...)
	s.process.Env = append(os.Environ(), asVariable+"="+as)
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// end ends a server by a signal, and returns how it ended.
func (s *server) end(signal syscall.Signal) string {
	if s.process == nil {
		return ""
	}
	_ = s.process.Process.Signal(signal) // it may have ended
	_ = s.process.Wait()                 // the state tells it
	state := s.process.ProcessState.String()
	s.process = nil
	return state
}

// eventually repeats a check until it succeeds.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for pauses := retry.Between(time.Millisecond, 100*time.Millisecond); ; {
		err := check(ctx)
		if err == nil {
			return
		}
		if !pauses.Wait(ctx) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// is waits until all servers that run with a chain report a state.
func is(t *testing.T, state string, all ...*server) {
	t.Helper()
	for _, s := range all {
		eventually(t, s.name+" is "+state, func(ctx context.Context) error {
			got, err := Ask(ctx, s.dir, "status")
			if err == nil && (got.State != state || state == "on" && !got.Reading) {
				err = fmt.Errorf("it is %+v", got)
			}
			return err
		})
	}
}

// exchange writes at one server and reads at another, and checks that the read sees the write.
func exchange(t *testing.T, all []*server, rounds int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		value := strconv.FormatUint(r.Uint64(), 16)
		writer, reader := all[r.IntN(len(all))], all[r.IntN(len(all))]
		eventually(t, "a put", func(ctx context.Context) error {
			_, err := writer.api.Put(ctx, "k", value)
			return err
		})
		eventually(t, "a get", func(ctx context.Context) error {
			get, err := reader.api.Get(ctx, "k")
			if err == nil && string(get.Kvs[0].Value) != value {
				t.Fatalf("%s answers %q after %s wrote %q", reader.name, get.Kvs[0].Value, writer.name, value)
			}
			return err
		})
	}
}

// metric returns a metric of a server.
func (s *server) metric(name string) float64 {
	s.t.Helper()
	a, err := http.Get(s.client + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return f
		}
	}
	s.t.Fatalf("no metric %s in\n%s", name, text)
	return 0
}

// chainFile starts a chain of three nodes and returns its cluster file.
func chainFile(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(softchain.Start(t, 3, 1, 64))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMetricsPage compares docs/metrics.md with what a member serves beside etcd's own metrics.
func TestMetricsPage(t *testing.T) {
	file := chainFile(t)
	all := servers(t)
	for _, s := range all {
		s.begin("program", "--chain-cluster", file, "--chain-pins", "")
	}
	exchange(t, all, 3)
	is(t, "on", all...)
	a, err := http.Get(all[0].client + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	metricspage.CheckServed(t, "netcraq etcd", "netcraq_", a.Body)
}

// TestInAndOut rolls a cluster of plain etcd servers to ones that read through a chain, uses them, and rolls back, on the same
// data directories.
func TestInAndOut(t *testing.T) {
	file := chainFile(t)
	all := servers(t)
	for _, s := range all {
		s.begin("etcd")
	}
	exchange(t, all, 3)
	for i, s := range all {
		if i > 0 {
			is(t, "off", all[:i]...)
			got, err := Ask(t.Context(), all[0].dir, "status")
			if err != nil || !slices.Contains(got.Out, s.name) || got.Version == "" {
				t.Errorf("%s is plain etcd: %+v, %v", s.name, got, err)
			}
		}
		if state := s.end(syscall.SIGTERM); state != "signal: terminated" {
			t.Errorf("etcd ended by %s", state)
		}
		s.begin("program", "--chain-cluster", file, "--chain-pins", "")
		exchange(t, all, 3)
	}
	is(t, "on", all...)
	exchange(t, all, 300)
	for _, s := range all {
		if n := s.metric("netcraq_member_fast_reads_total"); n < 20 {
			t.Errorf("%s has answered %v reads through the chain", s.name, n)
		}
		if n := s.metric(`netcraq_member_state{state="on"}`); n != 1 {
			t.Errorf("%s: the state has the metric %v", s.name, n)
		}
	}
	eventually(t, "off and on again", func(ctx context.Context) error {
		if got, err := Ask(ctx, all[0].dir, "off"); err != nil || got.State != "off" || got.Reading {
			t.Fatalf("%+v, %v", got, err)
		}
		is(t, "off", all...)
		exchange(t, all, 10)
		got, err := Ask(ctx, all[0].dir, "on")
		if err == nil && got.State != "on" {
			err = fmt.Errorf("the answer is %+v", got)
		}
		return err
	})
	is(t, "on", all...)

	for i, s := range all { // back, without a word before
		if state := s.end(syscall.SIGTERM); state != "signal: terminated" {
			t.Errorf("it ended by %s", state)
		}
		s.begin("etcd")
		exchange(t, all, 10)
		if _, err := Ask(t.Context(), s.dir, "status"); !errors.Is(err, ErrNotRunning) {
			t.Errorf("plain etcd answers: %v", err)
		}
		if i < len(all)-1 {
			is(t, "off", all[i+1:]...)
		}
	}
	list, err := all[0].api.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if len(m.ClientURLs) != 1 || strings.Contains(m.ClientURLs[0], "#") {
			t.Errorf("something is left: %v", m)
		}
	}
}

// TestKilled: a server is killed while all read through the chain, and comes back.
func TestKilled(t *testing.T) {
	file := chainFile(t)
	all := servers(t)
	for _, s := range all {
		s.begin("program", "--chain-cluster", file, "--chain-pins", "")
	}
	is(t, "on", all...)
	for i, s := range all {
		exchange(t, all, 20)
		s.end(syscall.SIGKILL)
		rest := append(append([]*server(nil), all[:i]...), all[i+1:]...)
		exchange(t, rest, 20)
		s.begin("program", "--chain-cluster", file, "--chain-pins", "")
		is(t, "on", all...)
	}
	exchange(t, all, 20)
}

// TestWithoutItsChain: a server whose chain is not there serves as etcd does.
func TestWithoutItsChain(t *testing.T) {
	all := servers(t)
	for _, s := range all {
		s.begin("program", "--chain-controllers", "127.0.0.1:1", "--chain-pins", "")
	}
	is(t, "off", all...)
	exchange(t, all, 20)
	if n := all[0].metric("netcraq_member_fast_reads_total"); n != 0 {
		t.Errorf("%v fast reads without a chain", n)
	}
	if got, err := Ask(t.Context(), all[0].dir, "status"); err != nil || !got.Free {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWrongFlags says what is wrong, and starts nothing.
func TestWrongFlags(t *testing.T) {
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--chain-reads", "on"}, "want auto or off"},
		{[]string{"--chain-reads", "auto"}, "no chain"},
		{[]string{"--chain-controllers", "a", "--chain-cluster", "b"}, "give one of them"},
		{[]string{"--chain-cluster", "/nonexistent"}, "there is no cluster file /nonexistent"},
		{[]string{"--chain-controllers", "a:x"}, "a:x"},
		{[]string{"--chain-controllers", "127.0.0.1:1", "--chain-identity", "/nonexistent"}, "/nonexistent"},
	} {
		s := &server{t: t, name: "m", dir: filepath.Join(t.TempDir(), "m.etcd"), client: "http://127.0.0.1:0", peer: "http://127.0.0.1:0",
			initial: "m=http://127.0.0.1:0"}
		s.begin("program", c.flags...)
		late := time.AfterFunc(time.Minute, func() { _ = s.process.Process.Kill() })
		_ = s.process.Wait() // the state tells it
		late.Stop()
		if s.process.ProcessState.ExitCode() != 1 || !strings.Contains(s.log.String(), c.says) {
			t.Errorf("%q: %v\n%s", c.flags, s.process.ProcessState, s.log.String())
		}
		if _, err := os.Stat(s.dir); err == nil {
			t.Errorf("%q: it has written data", c.flags)
		}
	}
}
