package lab

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestUpWithEtcd uses the etcd that `netcraq up --etcd` names, and interrupts it.
func TestUpWithEtcd(t *testing.T) {
	dir := t.TempDir()
	up := exec.Command(os.Args[0], "up", "--plane", "soft", "--etcd", "--etcd-listen", "127.0.0.1:0")
	up.Env = append(os.Environ(), clitest.AsCommand+"=1", "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir)
	output, err := up.StdoutPipe()
	if err := errors.Join(err, up.Start()); err != nil {
		t.Fatal(err)
	}
	said := readUntil(output, "Ctrl-C")
	address := regexp.MustCompile(`--endpoints (\S+)`).FindStringSubmatch(said)
	if address == nil {
		t.Fatalf("no line for etcdctl:\n%s", said)
	}
	put := `{"key":"Z3JlZXRpbmc=","value":"aGVsbG8="}`
	answer, err := http.Post("http://"+address[1]+"/v3/kv/put", "application/json", strings.NewReader(put))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "revision") {
		t.Errorf("a put: %s %s, %v", answer.Status, body, err)
	}
	if err := errors.Join(up.Process.Signal(unix.SIGINT), up.Wait()); err != nil {
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
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	up := exec.Command(os.Args[0], "up", "--plane", "soft", "--etcd", "--etcd-listen", taken.Addr().String())
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
