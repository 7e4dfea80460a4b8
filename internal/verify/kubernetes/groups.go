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

// makeGroup makes a group in every hierarchy. A kubelet makes those of pods below it.
func makeGroup(group string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Mkdir(filepath.Join(dir, group), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
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
