package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hierarchies returns the directories at which hierarchies of control groups are mounted, of both versions.
func hierarchies() ([]string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		const point, kind = 1, 2
		fields := strings.Fields(lines.Text())
		if len(fields) > kind && (fields[kind] == "cgroup" || fields[kind] == "cgroup2") {
			found = append(found, fields[point])
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no control groups are mounted below /sys/fs/cgroup, and kubelets need them")
	}
	return found, lines.Err()
}

// groupShares are the files of a group's share of the CPUs, in both versions, with that of ten processes. A group has
// the share of one process if it is not told otherwise. On a machine of its own, a pod competes with other pods by
// their requests; here, all pods of a machine would get less than any process of another job.
var groupShares = map[string]string{"cpu.shares": "10240", "cpu.weight": "1000"}

// makeGroup makes the group of a machine in every hierarchy. A kubelet makes those of pods below it.
func makeGroup(group string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, group)
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("control group: %w", err)
		}
		for file, share := range groupShares {
			if err := setGroup(filepath.Join(path, file), share); err != nil {
				return fmt.Errorf("control group: %w", err)
			}
		}
	}
	return nil
}

// joinGroup puts a process, and those that it will start, below the group of its machine, where CPUs are shared.
func joinGroup(group string, pid int) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		for file := range groupShares {
			if _, err := os.Stat(filepath.Join(dir, group, file)); errors.Is(err, os.ErrNotExist) {
				continue
			}
			services := filepath.Join(dir, group, "services")
			if err := os.Mkdir(services, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("control group: %w", err)
			}
			if err := setGroup(filepath.Join(services, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
				return fmt.Errorf("control group: %w", err)
			}
		}
	}
	return nil
}

// setGroup writes a file of a group, unless its hierarchy lacks the controller.
func setGroup(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// groupPatience bounds the wait for a group whose processes are gone, but whose removal the kernel still refuses.
const groupPatience = 20 * time.Second

// removeGroups removes the groups that match a pattern, with those below them, from every hierarchy.
func removeGroups(ctx context.Context, pattern string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, groupPatience)
	defer cancel()
	for _, dir := range dirs {
		groups, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, group := range groups {
			if err := await(ctx, func() error { return removeTree(group) }); err != nil {
				return fmt.Errorf("control group: %w", err)
			}
		}
	}
	return nil
}

// removeTree removes a group and those below it. Their files cannot be removed and go with them.
func removeTree(group string) error {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(groups) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
