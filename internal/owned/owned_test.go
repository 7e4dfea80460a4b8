package owned

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a killed process left is cleared away, and nothing else.
func TestLeftoversOfTheDeadAreCleared(t *testing.T) {
	parent := t.TempDir()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf("x-%d-1", gone.ProcessState.Pid())
	kept := []string{fmt.Sprintf("x-%d-1", os.Getpid()), "x-y-1", "x-1", fmt.Sprintf("y-%d-1", gone.ProcessState.Pid())}
	for _, name := range append(kept, left) {
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
	if _, err := os.Stat(filepath.Join(parent, left)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", left, err)
	}
}
