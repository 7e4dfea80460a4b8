package xdp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/bpflink"
	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// bpfFS is where the BPF file system is mounted on every Linux.
const bpfFS = "/sys/fs/bpf"

// DefaultPin is the directory of the pins of the node with that name.
func DefaultPin(name string) string { return filepath.Join(pods.PinRoot, name) }

// File names begin with these: of maps, and of the attachments to a port.
const (
	mapPin  = "nq_"
	portPin = "port-"
	growPin = "grow-"

	// The same of the ends of pods' veth pairs.
	podPortPin = pods.PortPin
	podGrowPin = pods.GrowPin
)

// bpfMounted reports whether the BPF file system is mounted where nodes pin.
func bpfMounted() (bool, error) {
	var fs unix.Statfs_t
	if err := eintr.Retry(func() error { return unix.Statfs(bpfFS, &fs) }); err != nil {
		return false, fmt.Errorf("%s: %w: is sysfs mounted?", bpfFS, err)
	}
	return fs.Type == unix.BPF_FS_MAGIC, nil
}

// makePinDirectory makes the directory, and mounts the BPF file system if it is not mounted.
func makePinDirectory(pin string) error {
	mounted, err := bpfMounted()
	if err != nil {
		return err
	}
	if !mounted {
		if err := unix.Mount("bpf", bpfFS, "bpf", 0, ""); err != nil {
			return fmt.Errorf("mounting the BPF file system on %s: %w: run as root", bpfFS, err)
		}
	}
	if err := os.MkdirAll(pin, 0o700); err != nil {
		return fmt.Errorf("making the pin directory: %w", err)
	}
	return nil
}

// Pinned reports whether a data plane is pinned in the directory.
func Pinned(pin string) bool {
	_, err := os.Stat(filepath.Join(pin, identityPin))
	return err == nil
}

// Remove ends the data plane pinned in the directory: ports are detached, all its objects are lost. Nothing pinned
// there is no error; a directory with anything else in it is left alone and is one.
func Remove(pin string) error {
	entries, err := os.ReadDir(pin)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isPin(e.Name()) {
			return fmt.Errorf("%s holds %s, which no node has put there: is it the right directory?", pin, e.Name())
		}
	}
	for _, e := range entries {
		if !isAttachment(e.Name()) && !isPodAttachment(e.Name()) {
			continue
		}
		if err := bpflink.Detach(filepath.Join(pin, e.Name())); err != nil {
			return err
		}
	}
	if err := endNearby(pin); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(pin, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Remove(pin)
}

// isPin reports whether a data plane of this version or another may have pinned something under that file name.
func isPin(name string) bool {
	return name == identityPin || strings.HasPrefix(name, mapPin) || isAttachment(name) || isPodAttachment(name)
}

// isAttachment reports whether a file name is that of an attachment to a port.
func isAttachment(name string) bool {
	return strings.HasPrefix(name, portPin) || strings.HasPrefix(name, growPin)
}

func isPodAttachment(name string) bool {
	return strings.HasPrefix(name, podPortPin) || strings.HasPrefix(name, podGrowPin)
}

// PortPins are the paths of the pinned attachments to ports in a directory; none if there is no such directory.
func PortPins(pin string) ([]string, error) {
	entries, err := os.ReadDir(pin)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), portPin) {
			paths = append(paths, filepath.Join(pin, e.Name()))
		}
	}
	return paths, nil
}

// attachments lists the file names of the pinned attachments.
func attachments(pin string) ([]string, error) {
	entries, err := os.ReadDir(pin)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if isAttachment(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
