package owned

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Directories of dead processes are removed, and no others.
func TestLeftoversOfTheDeadAreCleared(t *testing.T) {
	parent := t.TempDir()
	gone, zombie := exec.Command("true"), exec.Command("cat")
	stdin, err := zombie.StdinPipe()
	if err := errors.Join(err, gone.Run(), zombie.Start(), stdin.Close()); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	var exited unix.Siginfo
	if err := eintr.Retry(func() error {
		return unix.Waitid(unix.P_PID, zombie.Process.Pid, &exited, unix.WEXITED|unix.WNOWAIT, nil)
	}); err != nil {
		t.Fatal(err)
	}
	left := []string{fmt.Sprintf("x-%d-1", gone.ProcessState.Pid()), fmt.Sprintf("x-%d-1", zombie.Process.Pid)}
	kept := []string{fmt.Sprintf("x-%d-1", os.Getpid()), "x-y-1", "x-1", fmt.Sprintf("y-%d-1", gone.ProcessState.Pid())}
	for _, name := range append(left, kept...) {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	made, err := Dir(parent, "x-", os.Remove)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(kept, filepath.Base(made)) {
		if _, err := os.Stat(filepath.Join(parent, path)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(parent, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}
