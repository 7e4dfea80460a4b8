package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// The test's program is run again as a machine's first process, as the machine's programs, and in a network namespace
// of its own.
const (
	asMachine = "NETCRAQ_TEST_MACHINE" // name of the cluster, a space, name of the machine
	isolated  = "NETCRAQ_TEST_ISOLATED"
)

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "netcraq" || slices.Contains(programs, name) {
		for { // a program of a machine, which the test replaces by one that waits
			_ = unix.Pause() // without cgo, Go ends a process whose goroutines all wait for each other
		}
	}
	if name, machine, ok := strings.Cut(os.Getenv(asMachine), " "); ok {
		fmt.Fprintln(os.Stderr, RunMachine(name, machine))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// machineCommand runs this program as a machine.
func machineCommand(t *testing.T, name string) func(machine string) []string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func(machine string) []string { return []string{"env", asMachine + "=" + name + " " + machine, self} }
}

// inNetwork runs a test in a process with a network of its own: a cluster has fixed addresses.
func inNetwork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	roottest.Need(t)
	if os.Getenv(isolated) != "" {
		test(t)
		return
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), isolated+"=1")
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
