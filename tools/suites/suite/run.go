package suite

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
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
