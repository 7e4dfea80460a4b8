package cpushare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const procMountInfo = "/proc/self/mountinfo"

// ErrUnsupported says that this machine has no way to limit CPU time.
var ErrUnsupported = errors.New(
	"no control groups with the cpu controller: mount cgroup version 2 with `cpu` in cgroup.controllers, " +
		"or version 1 with `mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu`, as root")

// hierarchy is where groups are made.
type hierarchy struct {
	root    string
	version int
}

// findHierarchy looks for a mounted hierarchy that has the cpu controller. Each controller is in one version only.
func findHierarchy(mounts string) (hierarchy, error) {
	text, err := os.ReadFile(mounts)
	if err != nil {
		return hierarchy{}, err
	}
	for line := range strings.Lines(string(text)) {
		mount, how, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(mount), strings.Fields(how)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			continue
		}
		h := hierarchy{root: fields[4]}
		switch {
		case rest[0] == "cgroup" && slices.Contains(strings.Split(rest[2], ","), "cpu"):
			h.version = 1
		case rest[0] == "cgroup2" && h.lists("cgroup.controllers"):
			h.version = 2
		default:
			continue
		}
		return h, nil
	}
	return hierarchy{}, ErrUnsupported
}

// lists reports whether a file of the root names the cpu controller.
func (h hierarchy) lists(file string) bool {
	text, err := os.ReadFile(filepath.Join(h.root, file))
	return err == nil && slices.Contains(strings.Fields(string(text)), "cpu")
}

// prepare lets groups below the root have limits.
func (h hierarchy) prepare() error {
	const control = "cgroup.subtree_control"
	if h.version == 1 || h.lists(control) {
		return nil
	}
	if err := writeFile(h.root, control, "+cpu"); err != nil {
		return fmt.Errorf("give the cpu controller to groups below %s: %w (run as root, outside of containers that keep it)",
			h.root, err)
	}
	return nil
}

// limit sets how much time per period a group has.
func (h hierarchy) limit(dir string, quota time.Duration) error {
	if h.version == 2 {
		return writeFile(dir, "cpu.max", fmt.Sprintf("%d %d", quota.Microseconds(), period.Microseconds()))
	}
	return errors.Join(
		writeFile(dir, "cpu.cfs_period_us", strconv.FormatInt(period.Microseconds(), 10)),
		writeFile(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota.Microseconds(), 10)))
}
