package bench

import (
	"fmt"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// bpfFS is where the BPF file system is mounted.
const bpfFS = "/sys/fs/bpf"

// newKeeper returns a thread in a host's namespace with its own mount namespace. It lives until Close.
// Processes that it starts share a private BPF file system. Their pins live as long as the keeper,
// and disappear when this process ends.
func newKeeper(h *host) (*thread.Thread, error) {
	return thread.Start(func() error { return enterKept(h) })
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
