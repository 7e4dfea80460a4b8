package p4runtime

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// address is where the switch listens.
const address = "127.35.1.1:9559"

// TestShell: the shell sets a pipeline, changes and reads tables, counters and registers, sends a packet and gets one;
// what the switch refuses has the specification's code.
func TestShell(t *testing.T) {
	root := suite.Absolute(t, "../../..")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	python := prepare(t, filepath.Join(root, "out/p4runtime-shell"))
	sw := exec.CommandContext(ctx, filepath.Join(root, "bin/netcraq"), "switch", "--listen", address)
	log, err := sw.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sw.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	for ready := false; !ready; ready = strings.Contains(lines.Text(), "switch serves controllers") {
		if !lines.Scan() {
			t.Fatalf("the switch ends: %v, %s", sw.Wait(), lines.Text())
		}
	}
	script := exec.CommandContext(ctx, python, suite.Absolute(t, "testdata/shell.py"), address,
		filepath.Join(root, "p4/netcraq.p4info.txtpb"), filepath.Join(root, "p4/netcraq.spec"))
	out, err := script.CombinedOutput()
	if err != nil || !bytes.HasSuffix(bytes.TrimSpace(out), []byte("the switch did all of it")) {
		t.Errorf("%v: %s", err, out)
	}
	if err := sw.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until it ends
	}
	if err := sw.Wait(); err != nil {
		t.Errorf("the switch ended with %v", err)
	}
}

// prepare installs the shell in a directory of its own, unless it is there, and returns its Python.
func prepare(t *testing.T, dir string) string {
	t.Helper()
	requirements, err := os.ReadFile("testdata/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	stamp, python := filepath.Join(dir, "installed"), filepath.Join(dir, "bin/python")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, requirements) {
		return python
	}
	suite.Remove(t, dir)
	suite.Output(t, exec.Command("python3", "-m", "venv", dir))
	suite.Output(t, exec.Command(python, "-m", "pip", "install", "--no-deps", "-r", "testdata/requirements.txt"))
	if err := os.WriteFile(stamp, requirements, 0o600); err != nil {
		t.Fatal(err)
	}
	return python
}
