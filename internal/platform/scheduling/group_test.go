package scheduling

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// inGroup names the group that a process of the test moves to.
const inGroup = "NETCRAQ_TEST_GROUP"

// TestGroupWithoutRealTime: in a control group without real-time runtime, as those of pods are on some kernels, the
// threads get a lower nice value, and Raise says so.
func TestGroupWithoutRealTime(t *testing.T) {
	roottest.Need(t)
	if group := os.Getenv(inGroup); group != "" {
		pid := fmt.Appendf(nil, "%d", os.Getpid())
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), pid, 0); err != nil {
			t.Fatal(err)
		}
		if err := Raise(RealTime); !errors.Is(err, ErrNotRealTime) {
			t.Errorf("Raise: %v", err)
		}
		now, err := unix.SchedGetAttr(0, 0)
		if err != nil || now.Policy != unix.SCHED_NORMAL || now.Nice != niceness {
			t.Errorf("%+v, %v", now, err)
		}
		return
	}
	const root = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(filepath.Join(root, "cpu.rt_runtime_us")); err != nil {
		t.Skip("this kernel does not share real-time runtime among control groups: ", err)
	}
	group, err := os.MkdirTemp(root, "netcraq-test-")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1")
	c.Env = append(os.Environ(), inGroup+"="+group)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.Remove(group); err != nil {
		t.Error(err)
	}
}
