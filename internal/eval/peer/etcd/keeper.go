package etcd

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// keeper is the parent thread of the members. The kernel ends members with the thread that started
// them, so it lives as long as the cluster. It may change its network namespace and is used for
// nothing else.
type keeper struct {
	jobs chan func()
}

func newKeeper() *keeper {
	k := &keeper{make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range k.jobs {
			job()
		}
	}()
	return k
}

// do runs f on the thread in a network namespace, given by its path; an empty path means this
// process's namespace.
func (k *keeper) do(namespace string, f func() error) error {
	done := make(chan error)
	k.jobs <- func() {
		if namespace == "" {
			namespace = fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
		}
		if err := enter(namespace); err != nil {
			done <- err
			return
		}
		done <- f()
	}
	return <-done
}

// enter moves the calling thread to a network namespace unless it is already there.
func enter(namespace string) error {
	var here, there unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &here); err != nil {
		return err
	}
	if err := unix.Stat(namespace, &there); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	if here.Dev == there.Dev && here.Ino == there.Ino {
		return nil // joining needs root, staying does not
	}
	file, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	return nil
}

func (k *keeper) close() { close(k.jobs) }
