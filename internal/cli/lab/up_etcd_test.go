package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// TestUpWithEtcd uses the etcd of `netcraq up --etcd`, that of `--gateway`, and the keyspace of `--memory`, and interrupts them.
func TestUpWithEtcd(t *testing.T) {
	for _, kind := range []string{"--etcd", "--gateway", "--memory"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			up, address := startUpWithEtcd(t, dir, kind)
			switch kind {
			case "--memory": // it has no JSON API
				get(t, address, "/health", `"health":"true"`)
			default:
				post(t, address, "put", `{"key":"Z3JlZXRpbmc=","value":"aGVsbG8="}`, `"revision"`)
			}
			if kind == "--etcd" {
				readUntilFast(t, address)
			}
			if err := errors.Join(up.Process.Signal(unix.SIGINT), up.Wait()); err != nil {
				t.Error(err)
			}
			checkNoEtcdLeft(t, dir)
		})
	}
}

// startUpWithEtcd returns `netcraq up` with an etcd of a kind, and the etcd's address.
func startUpWithEtcd(t *testing.T, dir, kind string) (up *exec.Cmd, address string) {
	t.Helper()
	up = exec.Command(os.Args[0], "up", "--plane", "soft", kind, "--etcd-listen", "127.0.0.1:0")
	up.Env = append(os.Environ(), clitest.AsCommand+"=1", "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir)
	up.Stderr = os.Stderr
	output, err := up.StdoutPipe()
	if err := errors.Join(err, up.Start()); err != nil {
		t.Fatal(err)
	}
	said := readUntil(output, "Ctrl-C")
	found := regexp.MustCompile(`--endpoints (\S+)`).FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("no line for etcdctl:\n%s", said)
	}
	return up, found[1]
}

// get reads a page until it has a text.
func get(t *testing.T, address, path, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for pauses := retry.Between(10*time.Millisecond, time.Second); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil && strings.Contains(string(body), want) {
			return
		}
		if !pauses.Wait(ctx) {
			t.Fatalf("%s: %s, %v", path, body, err)
		}
	}
}

// post calls etcd's JSON API, and fails unless the answer has a text.
func post(t *testing.T, address, method, request, want string) {
	t.Helper()
	answer, err := http.Post("http://"+address+"/v3/kv/"+method, "application/json", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		t.Errorf("%s: %s %s, %v", method, answer.Status, body, err)
	}
}

// readUntilFast reads until the chain has answered a read. That is the first one, unless the machine pauses the etcd.
func readUntilFast(t *testing.T, address string) {
	t.Helper()
	for range 100 {
		post(t, address, "range", `{"key":"Z3JlZXRpbmc="}`, `"value":"aGVsbG8="`)
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^netcraq_member_fast_reads_total [1-9]`).Match(body) {
			return
		}
	}
	t.Error("no read was answered through the chain")
}

// TestUpWithEtcdKilled: the etcd ends with a `netcraq up` that is killed, and the next one removes its data.
func TestUpWithEtcdKilled(t *testing.T) {
	dir := t.TempDir()
	up, address := startUpWithEtcd(t, dir, "--etcd")
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait() // it was killed
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); ; {
		c, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		c.Close()
		if !pauses.Wait(ctx) {
			t.Fatal("the etcd goes on without its chain")
		}
	}
	next, _ := startUpWithEtcd(t, dir, "--etcd")
	if err := errors.Join(next.Process.Signal(unix.SIGINT), next.Wait()); err != nil {
		t.Error(err)
	}
	checkNoEtcdLeft(t, dir)
}

// checkNoEtcdLeft fails if an etcd's directory is there.
func checkNoEtcdLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "netcraq-etcd-") {
			t.Errorf("%s is left behind", entry.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A port that is taken is an error before anything is started, and the error names a flag that there is.
func TestUpWithEtcdPortTaken(t *testing.T) {
	for _, kind := range []string{"--etcd", "--gateway"} {
		t.Run(kind, func(t *testing.T) { testPortTaken(t, kind) })
	}
}

func testPortTaken(t *testing.T, kind string) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	up := exec.Command(os.Args[0], "up", "--plane", "soft", kind, "--etcd-listen", taken.Addr().String())
	up.Env = append(os.Environ(), clitest.AsCommand+"=1", "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir)
	var stdout, stderr bytes.Buffer
	up.Stdout, up.Stderr = &stdout, &stderr
	err = up.Run()
	said := stderr.String()
	if up.ProcessState.ExitCode() != cli.ExitError || stdout.Len() > 0 || !strings.Contains(said, "address already in use") ||
		!strings.Contains(said, "with --etcd-listen") {
		t.Errorf("%v: %s%s", err, &stdout, said)
	}
	checkNoEtcdLeft(t, dir)
}
