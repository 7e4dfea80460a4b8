// Package enginetest is for tests on the software switches of the P4 plane.
package enginetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Names of the engine in bin, and of BMv2's switch, which tests find in PATH only.
const (
	swx          = "netcraq-swx"
	simpleSwitch = "simple_switch_grpc"
)

// Need skips a test if the engine has not been built. In CI the test fails.
func Need(t testing.TB) {
	t.Helper()
	need(t, swx, "run `make p4-engine`")
}

// NeedSimpleSwitch skips a test if BMv2's simple_switch_grpc is not installed. BMv2 is in no registry, so CI skips
// these tests too.
func NeedSimpleSwitch(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath(simpleSwitch); err != nil {
		t.Skipf("%v: BMv2 is not installed (docs/p4.md)", err)
	}
}

// SimpleSwitch runs simple_switch_grpc until the test ends, by the command line that a function returns for the address
// of its P4Runtime server. It returns that address.
func SimpleSwitch(t testing.TB, command func(address string) []string) string {
	t.Helper()
	NeedSimpleSwitch(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	argv := command(address)
	c := exec.Command(argv[0], argv[1:]...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return address
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
