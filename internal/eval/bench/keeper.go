package bench

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// bpfFS is where the BPF file system is mounted.
const bpfFS = "/sys/fs/bpf"

// keeper is a thread in a host's namespace with its own mount namespace. It lives until close.
// Processes that it starts share a private BPF file system. Their pins live as long as the keeper,
// and disappear when this process ends.
type keeper struct {
	work chan func()
}

func newKeeper(h *host) (*keeper, error) {
	k := &keeper{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := enterKept(h)
		ready <- err
		if err != nil {
			return
		}
		for f := range k.work {
			f()
		}
	}()
	return k, <-ready
}

// enterKept moves the calling thread into the namespace and gives it its own mounts.
func enterKept(h *host) error {
	if err := netns.Set(h.ns); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("bpf", bpfFS, "bpf", 0, ""); err != nil {
		return fmt.Errorf("mount a BPF file system on %s: %w", bpfFS, err)
	}
	return nil
}

// do runs f on the keeper's thread.
func (k *keeper) do(f func() error) error {
	done := make(chan error)
	k.work <- func() { done <- f() }
	return <-done
}

func (k *keeper) close() { close(k.work) }
