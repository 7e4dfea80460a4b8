package controller

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// smallDisk makes a file system of a size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	roottest.Need(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// process is a controller in a process of its own.
type process struct {
	command *exec.Cmd
	text    bytes.Buffer // to be read when it has ended
	ended   chan struct{}
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(os.Args[0], append([]string{"controller", "--priority", "fair"}, args...)...),
		ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), clitest.AsCommand+"=1")
	p.command.Stdout, p.command.Stderr = &p.text, &p.text
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.command.Wait() }()
	t.Cleanup(func() { _ = p.command.Process.Kill(); <-p.ended })
	return p
}

// lastWords ends a controller, and returns what it said.
func (p *process) lastWords() string {
	_ = p.command.Process.Kill()
	<-p.ended
	return p.text.String()
}

// checkFull waits for the end of a controller without room on its disk, and returns an error unless it says what to do.
func (p *process) checkFull(t *testing.T, dir string) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(clitest.Formed):
		t.Fatal("the controller runs on")
	}
	text := p.text.String()
	if code := p.command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	if strings.Contains(text, "goroutine ") || !strings.Contains(text, "is full: make room there") || !strings.Contains(text, dir) {
		t.Errorf("its last words are of no help:\n%s", text)
	}
}

// TestFullDisk fills the disk of a controller while it runs, and before its first start. It ends with advice, and with
// room on the disk it goes on with all that was confirmed.
func TestFullDisk(t *testing.T) {
	const address = "127.77.9.7"
	disk := smallDisk(t, "150m") // etcd reserves 64 MB for its log twice, the second part beside its first writes
	dir := filepath.Join(disk, "data")
	fill := func() {
		file, err := os.Create(filepath.Join(disk, "other"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		block := make([]byte, 4096)
		for err == nil {
			_, err = file.Write(block)
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	fill()
	startProcess(t, "--data-dir", dir, "--listen", address).checkFull(t, dir)
	free := func() {
		if err := os.Remove(filepath.Join(disk, "other")); err != nil {
			t.Fatal(err)
		}
	}
	free()
	p := startProcess(t, "--data-dir", dir, "--listen", address)
	set := func(suspect string) error {
		_, _, err := clitest.Netcraq("settings", "--controllers", address, "--suspect", suspect)
		return err
	}
	confirmed, tried := "", ""
	for end := time.Now().Add(clitest.Formed); confirmed == ""; { // until the cluster is formed
		if err := set("301ms"); err == nil {
			confirmed = "301ms"
		} else if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, p.lastWords())
		}
	}
	fill()
	for _, suspect := range []string{"302ms", "303ms", "304ms", "305ms", "306ms", "307ms", "308ms", "309ms"} {
		tried = suspect
		if set(suspect) != nil {
			break
		}
		confirmed = suspect
	}
	p.checkFull(t, dir)
	free()
	p = startProcess(t, "--data-dir", dir, "--listen", address)
	for end := time.Now().Add(clitest.Formed); ; {
		out, _, err := clitest.Netcraq("settings", "--controllers", address)
		if err == nil && (strings.Contains(out, confirmed) || strings.Contains(out, tried)) { // a write without an answer counts or not
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the setting of %s was confirmed; now: %v\n%s\n%s", confirmed, err, out, p.lastWords())
		}
	}
}
