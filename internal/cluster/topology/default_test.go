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

// TestRootsClusterIsNamed: a user without a cluster gets root's, and is told so.
func TestRootsClusterIsNamed(t *testing.T) {
	own, root := filepath.Join(t.TempDir(), "own.yaml"), filepath.Join(t.TempDir(), "root.yaml")
	if path, _, err := findDefault(own, root); err == nil || !strings.Contains(err.Error(), own) {
		t.Errorf("without any: %s, %v", path, err)
	}
	if err := os.WriteFile(root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if path, roots, err := findDefault(own, root); err != nil || path != root || !roots {
		t.Errorf("root's alone: %s, %v, %v", path, roots, err)
	}
	if path, roots, err := findDefault(root, root); err != nil || path != root || roots {
		t.Errorf("for root: %s, %v, %v", path, roots, err)
	}
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if path, roots, err := findDefault(own, root); err != nil || path != own || roots {
		t.Errorf("both: %s, %v, %v", path, roots, err)
	}
}
