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

// nsDir is where `ip netns` keeps its names.
const nsDir = "/run/netns"

// wiresHost names the namespace that all links run through.
const wiresHost = "wires"

func nsName(lab, host string) string { return "nq-" + lab + "-" + host }

// nsPath is where a host's namespace is named; empty for the machine's own.
func nsPath(lab, host string) string {
	if host == RootHost {
		return ""
	}
	return filepath.Join(nsDir, nsName(lab, host))
}

// makeNamespace creates a named network namespace. The thread that made it ends with the goroutine.
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

// onThreadToSpare runs f on a thread that ends with it. That is never the process's first thread: it doesn't end, and
// in what namespace it is, that is where the whole process seems to be.
func onThreadToSpare(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked after f: the thread must not run anything else
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		done <- onThreadToSpare(f) // on another, since this one is taken
		runtime.UnlockOSThread()
	}()
	return <-done
}

// removeNamespace takes the name away; the kernel removes the namespace when the last process has left it.
func removeNamespace(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("network namespace %s: %w", filepath.Base(path), err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// namespaces finds the named namespaces of a lab, whatever its state file says.
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

// inNamespace runs f on a thread inside a namespace (the process's own if path is empty). Only f's own
// goroutine is in there.
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
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
		done <- err
	}()
	return <-done
}
