// Package enginetest is for tests on the software switch of the P4 plane.
package enginetest

import (
	"os"
	"path/filepath"
	"testing"
)

// name is the file of the engine in bin.
const name = "netcraq-swx"

// Need skips a test if the engine has not been built. In CI the test fails.
func Need(t testing.TB) {
	t.Helper()
	path, err := find()
	switch {
	case err == nil:
		t.Setenv("NETCRAQ_SWX", path)
	case os.Getenv("CI") == "true":
		t.Fatalf("%v: run `make p4-engine`", err)
	default:
		t.Skipf("%v: run `make p4-engine`", err)
	}
}

// find looks for the engine in the repository that has the working directory, which is the package under test.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
	path := filepath.Join(dir, "bin", name)
	_, err = os.Stat(path)
	return path, err
}
