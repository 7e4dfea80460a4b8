package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
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
	err = onThreadToSpare(func() error {
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

// onThreadToSpare runs f on a thread that ends with it. It never uses the process's first thread:
// that one does not end, and its namespace is reported as the namespace of the process.
func onThreadToSpare(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not run anything else
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		done <- onThreadToSpare(f) // this goroutine holds the first thread, so another one runs f
		runtime.UnlockOSThread()
	}()
	return <-done
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
	target, err := os.Open(path)
	if err != nil {
		return err
	}
	defer target.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return
		}
		defer own.Close()
		if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		err = f()
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // on failure the thread ends with the goroutine
		}
		done <- err
	}()
	return <-done
}
