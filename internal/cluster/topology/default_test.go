package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDefaultOfAnotherUser: anyone may make the default's directory in /tmp before its user does.
func TestDefaultOfAnotherUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "netcraq-0")
	path := filepath.Join(dir, "cluster.yaml")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := believe(path); err != nil {
		t.Errorf("own file: %v", err)
	}
	for _, each := range []string{dir, path} {
		if err := os.Chmod(each, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := believe(path); err == nil || !strings.Contains(err.Error(), "--cluster") {
			t.Errorf("%s may be written by others: %v", each, err)
		}
		if err := os.Chmod(each, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			continue // only root can give a file away
		}
		if err := os.Chown(each, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := believe(path); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("%s belongs to another user: %v", each, err)
		}
		if err := os.Chown(each, os.Geteuid(), -1); err != nil {
			t.Fatal(err)
		}
	}
}
