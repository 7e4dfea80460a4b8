package cpushare

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// A process that wants a whole CPU gets its share, and the group says that it was stopped.
func TestAShareIsAllThatAProcessGets(t *testing.T) {
	roottest.Need(t)
	share, err := New(0.1)
	if err != nil {
		t.Fatal(err)
	}
	spin := exec.Command("sh", "-c", "while :; do :; done")
	if err := spin.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = spin.Process.Kill()
		_ = spin.Wait()
		used := spin.ProcessState.UserTime() + spin.ProcessState.SystemTime()
		if used > 500*time.Millisecond { // 50 periods of 2 ms, and the time before the limit
			t.Errorf("used %v", used)
		}
		if err := share.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(share.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left %s behind: %v", share.dir, err)
		}
	}()
	if err := share.Add(spin.Process.Pid); err != nil {
		t.Fatal(err)
	}
	before, err := share.Stat()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		now, err := share.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if now.Periods >= before.Periods+50 {
			if part := now.ThrottledSince(before); part < 0.5 {
				t.Errorf("stopped in %.0f %% of the periods only", 100*part)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("only %d periods went by", now.Periods-before.Periods)
		}
	}
}

func TestSharesTooSmallAreRefused(t *testing.T) {
	if _, err := New(0.001); err == nil || !strings.Contains(err.Error(), "0.05") {
		t.Errorf("got %v", err)
	}
}

func TestHierarchyIsFound(t *testing.T) {
	two, none := t.TempDir(), t.TempDir()
	for dir, controllers := range map[string]string{two: "cpuset cpu io\n", none: "cpuset io\n"} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(controllers), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const one = "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	for name, c := range map[string]struct {
		mounts string
		want   hierarchy
		err    error
	}{
		"version 1":             {one, hierarchy{"/sys/fs/cgroup/cpu", 1}, nil},
		"version 2":             {"31 25 0:27 / " + two + " rw - cgroup2 cgroup2 rw\n", hierarchy{two, 2}, nil},
		"version 2 without cpu": {"31 25 0:27 / " + none + " rw - cgroup2 cgroup2 rw\n", hierarchy{}, ErrUnsupported},
		"both, cpu in version 1": {"31 25 0:27 / " + none + " rw - cgroup2 cgroup2 rw\n" + one,
			hierarchy{"/sys/fs/cgroup/cpu", 1}, nil},
		"version 1 with cpuacct":   {"30 25 0:26 / /x rw - cgroup cgroup rw,cpuacct\n", hierarchy{}, ErrUnsupported},
		"no control groups at all": {"22 1 8:1 / / rw - ext4 /dev/vda rw\n", hierarchy{}, ErrUnsupported},
	} {
		file := filepath.Join(t.TempDir(), "mountinfo")
		if err := os.WriteFile(file, []byte(c.mounts), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := findHierarchy(file); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
