package suite

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// Absolute returns the absolute form of a path.
func Absolute(t *testing.T, path string) string {
	t.Helper()
	a, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Alone fails the test if others that call it run on this host, or in this network namespace. They use fixed ports.
func Alone(t *testing.T) {
	t.Helper()
	l, err := reserve("suites")
	if err != nil {
		t.Fatal("other tests use the same ports: wait until they end, or run in a network namespace of your own: ", err)
	}
	t.Cleanup(func() { l.Close() })
}

// reserve takes a name that a network namespace has once, until the listener is closed or the process ends.
func reserve(name string) (net.Listener, error) { return net.Listen("unix", "@netcraq/"+name) }

// Output returns what a command prints. The command has to succeed.
func Output(t *testing.T, c *exec.Cmd) []byte {
	t.Helper()
	var said bytes.Buffer
	c.Stderr = &said
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", c, err, text, &said)
	}
	return text
}

var clusterFile = regexp.MustCompile(`cluster file is (\S+)\.`)

// StartChain starts a chain that ends with the test, and returns its cluster file.
func StartChain(t *testing.T, program string) string {
	t.Helper()
	up := exec.Command(program, "up", "--plane", "soft")
	up.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	up.Stderr = os.Stderr
	printed, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGINT) // Wait says more
		if err := up.Wait(); err != nil {
			t.Errorf("netcraq up: %v", err)
		}
	})
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		if found := clusterFile.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("netcraq up named no cluster file")
	return ""
}

// Addresses of a cluster that [StartCluster] starts.
const (
	controller = "127.78.0.1"
	node       = "127.78.0.%d:4411"
	nodes      = 3
)

// formed limits the time in which a cluster has to store a value, on a busy machine.
const formed = time.Minute

// StartCluster starts a controller, and a chain of nodes that are sockets, which end with the test, and waits until the
// chain serves. It returns the controller's address.
func StartCluster(t *testing.T, program string) string {
	t.Helper()
	start(t, program, "controller", "--listen", controller, "--data-dir", t.TempDir(), "--shards", "1",
		"--replicas", fmt.Sprint(nodes), "--form-with", fmt.Sprint(nodes))
	for i := range nodes {
		start(t, program, "node", "--name", fmt.Sprintf("n%d", i), "--addr", fmt.Sprintf(node, i+2), "--join", controller,
			"--plane", "soft", "--objects", "400000", "--labels", fmt.Sprintf("zone=z%d", i))
	}
	for deadline := time.Now().Add(formed); ; {
		put := exec.Command(program, "put", "--controllers", controller, "suite", "begins")
		said, err := put.CombinedOutput()
		if err == nil {
			return controller
		}
		if time.Now().After(deadline) {
			t.Fatalf("the chain does not serve after %v: %v: %s", formed, err, said)
		}
	}
}

// start starts the product with a command that ends with the test.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may be gone
		_ = c.Wait()         // it reports the kill
		if t.Failed() {
			t.Logf("netcraq %s:\n%s", args[0], &said)
		}
	})
}
