package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// nsDir is the directory of `ip netns` for named namespaces.
const nsDir = "/run/netns"

// wiresHost is the name of the namespace that all links run through.
const wiresHost = "wires"

func nsName(lab, host string) string { return "nq-" + lab + "-" + host }

// nsPath returns the path of a host's namespace; empty for the machine's own.
func nsPath(lab, host string) string {
	if host == RootHost {
		return ""
	}
	return filepath.Join(nsDir, nsName(lab, host))
}

// makeNamespace creates a named network namespace on a thread that ends afterwards.
func makeNamespace(path string) error {
	if err := os.MkdirAll(nsDir, 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	file.Close()
	err = thread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "bind", unix.MS_BIND, "")
	})
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("network namespace %s: %w", filepath.Base(path), err)
	}
	return nil
}

// removeNamespace removes the name. The kernel removes the namespace when the last process has left
// it.
func removeNamespace(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("network namespace %s: %w", filepath.Base(path), err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// namespaces returns the named namespaces of a lab, independent of its state file.
func namespaces(lab string) []string {
	entries, _ := os.ReadDir(nsDir) // absent: no namespaces
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), nsName(lab, "")) {
			paths = append(paths, filepath.Join(nsDir, e.Name()))
		}
	}
	return paths
}

// inNamespace runs f on a thread inside a namespace (the process's own if path is empty).
// Goroutines that f starts run outside.
func inNamespace(path string, f func() error) error {
	if path == "" {
		return f()
	}
	return thread.In(path, f)
}
