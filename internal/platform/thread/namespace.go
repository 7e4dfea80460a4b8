package thread

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// ErrNoNamespace says that a path names something else than a network namespace.
var ErrNoNamespace = errors.New("not a network namespace")

// OpenNamespace opens the network namespace at a path. Files of other kinds are not opened for reading, which could
// block, as a FIFO does: the error is [ErrNoNamespace].
func OpenNamespace(path string) (*os.File, error) {
	handle, err := eintr.Value(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open network namespace", Path: path, Err: err}
	}
	defer unix.Close(handle)
	var fs unix.Statfs_t
	if err := eintr.Retry(func() error { return unix.Fstatfs(handle, &fs) }); err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		return nil, fmt.Errorf("%s: %w", path, ErrNoNamespace)
	}
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", handle))
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", path, err)
	}
	kind, err := unix.IoctlRetInt(int(file.Fd()), unix.NS_GET_NSTYPE)
	if err == nil && kind != unix.CLONE_NEWNET {
		err = ErrNoNamespace
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// Enter moves the calling thread to the network namespace at a path; an empty path means the process's own. Entering
// needs root, staying does not.
func Enter(namespace string) error {
	if namespace == "" {
		namespace = fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
	}
	var here, there unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &here); err != nil {
		return err
	}
	if err := unix.Stat(namespace, &there); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	if here.Dev == there.Dev && here.Ino == there.Ino {
		return nil
	}
	file, err := OpenNamespace(namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	return nil
}
