package trust

import (
	"os"
	"path/filepath"
	"testing"
)

func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode          os.FileMode
		owner, secret bool
	}{
		{0o600, true, true}, {0o440, true, true}, {0o644, true, false}, {0o620, false, false}, {0o602, false, false},
		{0o604, true, false}, {0o777, false, false},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := CheckOwner(path); (err == nil) != c.owner {
			t.Errorf("%v: CheckOwner says %v", c.mode, err)
		}
		if err := CheckSecret(path); (err == nil) != c.secret {
			t.Errorf("%v: CheckSecret says %v", c.mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if CheckOwner(path) == nil || CheckSecret(path) == nil {
		t.Error("another user's file is trusted")
	}
}
