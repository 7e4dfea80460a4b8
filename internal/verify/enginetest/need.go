// Package enginetest is for tests on the software switches of the P4 plane.
package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Files of the engines in bin, and the switch of the second, which nobody installs for a test.
const (
	swx       = "netcraq-swx"
	bmv2      = "netcraq-bmv2"
	psaSwitch = "psa_switch"
)

// Need skips a test if the engine has not been built. In CI the test fails.
func Need(t testing.TB) {
	t.Helper()
	need(t, swx, "run `make p4-engine`")
}

// NeedBMv2 skips a test if BMv2's psa_switch is not installed. BMv2 is in no registry, so CI skips these tests too.
func NeedBMv2(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath(psaSwitch); err != nil {
		t.Skipf("%v: BMv2 is not installed (docs/p4.md)", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("BMv2 needs root, for its network namespace")
	}
	need(t, bmv2, "run `make build`")
}

func need(t testing.TB, name, advice string) {
	t.Helper()
	path, err := find(name)
	switch {
	case err == nil:
		t.Setenv("NETCRAQ_ENGINE", path)
	case os.Getenv("CI") == "true":
		t.Fatalf("%v: %s", err, advice)
	default:
		t.Skipf("%v: %s", err, advice)
	}
}

// find looks for an engine in bin of the repository that has the working directory, which is the package under test. The
// package's module may be below the repository's.
func find(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("bin/%s: %w", name, os.ErrNotExist)
		}
	}
}
