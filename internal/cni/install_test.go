package cni

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInstall: the file is replaced whole, and nothing else is left in the directory.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := Install(dir); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	have, err := os.Stat(filepath.Join(dir, Name))
	if err != nil || have.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", have, err)
	}
	if own, err := os.Stat("/proc/self/exe"); err != nil || own.Size() != have.Size() {
		t.Errorf("the copy has %d bytes: %v", have.Size(), err)
	}
	if err := Install(filepath.Join(dir, "none")); err == nil {
		t.Error("installed into a directory that does not exist")
	}
}
