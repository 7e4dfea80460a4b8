package cpushare

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/platform/owned"
)

// period is the interval at which a share is refilled. The kernel's default, 100 ms, would stop a process with a tenth of a
// CPU for 90 ms at a time, about as long as etcd's heartbeat interval. A tenth of this period is twice the kernel's minimum.
const period = 20 * time.Millisecond

// least is the shortest time per period that the kernel accepts.
const least = time.Millisecond

// Share is a group of processes with a common limit of their CPU time.
type Share struct{ dir string }

// New makes a share of this number of CPUs (0.1: a tenth of one). It needs root. The caller closes the share.
func New(cpus float64) (*Share, error) {
	quota := time.Duration(math.Round(cpus * float64(period)))
	if quota < least {
		return nil, fmt.Errorf("a share of %g CPUs is too small: the minimum is %g", cpus, float64(least)/float64(period))
	}
	h, err := findHierarchy(procMountInfo)
	if err != nil {
		return nil, err
	}
	if err := h.prepare(); err != nil {
		return nil, err
	}
	dir, err := owned.Dir(h.root, "netcraq-", os.Remove)
	if err != nil {
		return nil, fmt.Errorf("make a control group: %w (limiting CPU time needs root)", err)
	}
	s := &Share{dir}
	if err := h.limit(dir, quota); err != nil {
		return nil, errors.Join(fmt.Errorf("limit CPU time: %w", err), s.Close())
	}
	return s, nil
}

// Add puts a process, with all its threads, into the group. Its children follow.
func (s *Share) Add(pid int) error {
	if err := writeFile(s.dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("limit process %d: %w", pid, err)
	}
	return nil
}

// Stat counts the periods in which the group ran since it was made.
type Stat struct {
	Periods   uint64
	Throttled uint64 // those in which it used up its share and was stopped
}

// ThrottledSince returns the share of the periods since an earlier count in which the group was stopped, 0 to 1. Near 1 its
// processes lack CPU time.
func (s Stat) ThrottledSince(before Stat) float64 {
	if s.Periods <= before.Periods {
		return 0
	}
	return float64(s.Throttled-before.Throttled) / float64(s.Periods-before.Periods)
}

// Stat reads the group's counters.
func (s *Share) Stat() (Stat, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "cpu.stat"))
	if err != nil {
		return Stat{}, err
	}
	var stat Stat
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case name == "nr_periods" && err == nil:
			stat.Periods = n
		case name == "nr_throttled" && err == nil:
			stat.Throttled = n
		}
	}
	return stat, nil
}

// Close removes the group. Its processes must have ended.
func (s *Share) Close() error { return os.Remove(s.dir) }

func writeFile(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0)
}
