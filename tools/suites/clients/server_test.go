package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// A kind is what serves etcd's API.
type kind string

const (
	plain   kind = "etcd"
	gateway kind = "gateway" // in front of an etcd, and all keys are cached from their first read on
	disks   kind = "disks"   // a keyspace on three disks
	memory  kind = "memory"  // a keyspace in memory, and clients are at the gateway that is not active
)

// kinds are those that libraries' own tests run with.
var kinds = []kind{plain, gateway, memory}

// Addresses of servers. Clients' tests look for etcd at the first.
const (
	address = "127.0.0.1:2379"
	behind  = "127.0.0.1:12379" // the etcd of a gateway
	active  = "127.0.0.1:22379" // the active gateway of a keyspace in memory
)

// enterNetwork gives the rest of the test and all processes that it starts a network of their own. The goroutine keeps
// its thread, which ends with it.
func enterNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal("a network of its own: ", err)
	}
	suite.Output(t, exec.Command("ip", "link", "set", "lo", "up"))
}

// serve starts a server at [address] with an empty store. It ends with the test.
func serve(t *testing.T, k kind) {
	t.Helper()
	switch k {
	case plain:
		startEtcd(t, address)
	case gateway:
		startEtcd(t, behind)
		startGateway(t, address, suite.StartChain(t, programs(t).netcraq), "--etcd-endpoints", behind, "--pin", "")
	case disks:
		up := exec.Command(programs(t).netcraq, "up", "--plane", "soft", "--keyspace", "--etcd-listen", address)
		up.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		start(t, address, up)
	case memory:
		cluster := suite.StartChain(t, programs(t).netcraq)
		startGateway(t, active, cluster, "--memory")
		startGateway(t, address, cluster, "--memory")
	}
}

func startEtcd(t *testing.T, at string) {
	t.Helper()
	const peers = "http://127.0.0.1:2380"
	url := "http://" + at
	start(t, at, exec.Command(programs(t).etcd, "--data-dir", t.TempDir(), "--log-level", "warn", "--unsafe-no-fsync",
		"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers))
}

func startGateway(t *testing.T, at, cluster string, options ...string) (end func()) {
	t.Helper()
	return start(t, at, exec.Command(programs(t).netcraq,
		append([]string{"gateway", "--listen", at, "--cluster", cluster}, options...)...))
}

// start starts a server and waits until it is healthy. It ends with the test, and shows its log if the test failed.
// Calling end kills it before.
func start(t *testing.T, at string, c *exec.Cmd) (end func()) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended, killed := make(chan error, 1), false
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		if killed {
			return
		}
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%v: %v\n%s", c.Args, err, text)
		}
	})
	for {
		if text, err := page(at, "/health"); err == nil && bytes.Contains(text, []byte(`"true"`)) {
			break
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			ended <- err
			t.Fatalf("%v: %v\n%s", c.Args, err, text)
		case <-time.After(25 * time.Millisecond):
		}
	}
	return func() {
		killed = true
		_ = c.Process.Kill() // it may have ended
		<-ended
	}
}

// page returns a page of a server.
func page(at, path string) ([]byte, error) {
	answer, text, err := ask(at, path)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return text, err
}

// ask gets a page. It connects in this goroutine, whose network it is.
func ask(at, path string) (*http.Response, []byte, error) {
	c, err := net.DialTimeout("tcp", at, 10*time.Second)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // a TCP connection has deadlines
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, at); err != nil {
		return nil, nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, text, err
}

// hits is how many reads a gateway answered from the chain. The gateway may begin anew meanwhile, since the tests switch
// authentication off: then it closes its connections.
func hits(t *testing.T) (n int) {
	t.Helper()
	text, err := page(address, "/proxy/metrics")
	for until := time.Now().Add(time.Minute); err != nil; text, err = page(address, "/proxy/metrics") {
		if time.Now().After(until) {
			t.Error(err)
			return 0
		}
		<-time.After(25 * time.Millisecond) // it serves again in a moment
	}
	for line := range bytes.Lines(text) {
		if found, _ := fmt.Sscanf(string(line), "netcraq_gateway_hits_total %d", &n); found == 1 {
			return n
		}
	}
	t.Error("the gateway does not count reads from the chain")
	return 0
}

// paths are where programs and files of the tests are.
type paths struct{ netcraq, etcd, etcdctl, out string }

func programs(t *testing.T) paths {
	t.Helper()
	root := suite.Absolute(t, "../../..")
	p := paths{netcraq: filepath.Join(root, "bin/netcraq"), etcd: filepath.Join(root, ".tools/etcd")}
	p.out = filepath.Join(root, "out/clients")
	p.etcdctl = filepath.Join(p.out, "bin/etcdctl")
	for _, program := range []string{p.netcraq, p.etcd} {
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("%v: run make test-clients, which compiles it", err)
		}
	}
	return p
}
