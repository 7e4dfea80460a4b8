package h2spec

import (
	"encoding/xml"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root is the directory of the repository, with bin/netcraq and .tools/etcd.
const root = "../.."

// explained are the tests that the gateway does not pass. docs/verification.md says why.
var explained = []string{"http2/5.3.1: Sends PRIORITY frame that depend on itself"}

// open are the tests whose result HTTP/2 leaves open. They announce a shorter body than they send, or overflow the
// window of a request that has not ended, and expect the stream to be reset. A server may answer before it has received
// the body (RFC 9113, section 8.1), and ignores the rest of it, and windows of the stream (section 5.1), then.
var open = []string{
	`http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the DATA frame payload length`,
	`http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the sum of the ` +
		`multiple DATA frames payload length`,
	`http2/6.9.1: Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream`,
}

// report is h2spec's, in JUnit's format.
type report struct {
	Suites []struct {
		ID    string `xml:"id,attr"`
		Cases []struct {
			ID      string    `xml:"package,attr"`
			Name    string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// TestGatewayBesideEtcd runs h2spec on both, prints where they differ, and fails for a test that etcd passes and the
// gateway does not, or that fails without an explanation. It fails for no test whose result is open.
func TestGatewayBesideEtcd(t *testing.T) {
	etcd, gateway := freePort(t), freePort(t)
	url := "http://127.0.0.1:" + etcd
	start(t, etcd, ".tools/etcd", "--data-dir", t.TempDir(), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:"+freePort(t), "--log-level", "error")
	start(t, gateway, "bin/netcraq", "gateway", "--etcd-endpoints", url, "--listen", "127.0.0.1:"+gateway)
	theirs, ours := spec(t, etcd), spec(t, gateway)
	var names []string
	passed := map[string]int{}
	for name := range ours {
		names = append(names, name)
		passed["gateway "+ours[name]]++
		passed["etcd "+theirs[name]]++
	}
	slices.Sort(names)
	t.Log(passed)
	for _, name := range names {
		if ours[name] != "passed" || theirs[name] != "passed" {
			t.Logf("gateway %-7s etcd %-7s %s", ours[name], theirs[name], name)
		}
		if ours[name] != "passed" && !slices.Contains(open, name) && (theirs[name] == "passed" || !slices.Contains(explained, name)) {
			t.Errorf("the gateway %s: %s", ours[name], name)
		}
	}
	if len(names) < 140 {
		t.Errorf("%d tests only", len(names))
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// run runs a program of the repository until the test ends.
func run(t *testing.T, program string, args ...string) *os.Process {
	t.Helper()
	c := exec.Command(filepath.Join(root, program), args...)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatalf("%v: run make build, and scripts/peers.sh etcd", err)
	}
	t.Cleanup(func() { end(c.Process) })
	return c.Process
}

// start runs a program of the repository until the test ends, and waits until it listens.
func start(t *testing.T, port, program string, args ...string) *os.Process {
	t.Helper()
	p := run(t, program, args...)
	for limit := time.Now().Add(time.Minute); ; {
		n, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			n.Close()
			return p
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
}

// end ends a program, if it has not ended yet.
func end(p *os.Process) {
	_ = p.Signal(syscall.SIGTERM) // Wait says more
	_, _ = p.Wait()               // ended by the signal
}

// spec returns what came of each test. Its exit status says that some failed, which the report says too.
func spec(t *testing.T, port string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.xml")
	c := exec.Command("go", "tool", "h2spec", "--port", port, "--timeout", "5", "--junit-report", file)
	said, runErr := c.CombinedOutput()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("h2spec: %v, %v\n%s", runErr, err, said)
	}
	var r report
	if err := xml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	results := make(map[string]string)
	for _, suite := range r.Suites {
		for _, c := range suite.Cases {
			name := fmt.Sprintf("%s: %s", c.ID, strings.TrimSpace(c.Name))
			switch {
			case c.Failure != nil || c.Error != nil:
				results[name] = "failed"
			case c.Skipped != nil:
				results[name] = "skipped"
			default:
				results[name] = "passed"
			}
		}
	}
	return results
}
