package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// removeStrayPins removes data planes that were started by hand in these namespaces after their
// agents have ended. Otherwise their pins would keep them and their memory when the namespaces are
// gone.
func removeStrayPins(spaces []string) error {
	programs := make(map[ebpf.ProgramID]bool)
	for _, path := range spaces {
		if err := attachedIn(path, programs); err != nil {
			return fmt.Errorf("look for data planes in %s: %w", path, err)
		}
	}
	dirs, err := filepath.Glob(xdp.DefaultPin("*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		stray, err := holds(dir, programs)
		if err == nil && stray {
			err = xdp.Remove(dir)
		}
		if err != nil {
			return fmt.Errorf("remove the data plane pinned at %s: %w", dir, err)
		}
	}
	return nil
}

// attachedIn adds the XDP programs on a namespace's devices.
func attachedIn(path string, programs map[ebpf.ProgramID]bool) error {
	var fs unix.Statfs_t
	// A namespace that was not finished is a plain file.
	if eintr.Retry(func() error { return unix.Statfs(path, &fs) }) == nil && fs.Type != unix.NSFS_MAGIC {
		return nil
	}
	ns, err := netns.GetFromPath(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE) // other families are modules that a kernel may lack
	if err != nil {
		return err
	}
	defer handle.Close()
	devices, err := handle.LinkList()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if x := d.Attrs().Xdp; x != nil && x.ProgId != 0 {
			programs[ebpf.ProgramID(x.ProgId)] = true
		}
	}
	return nil
}

// holds reports whether a pinned attachment in a directory belongs to one of the programs.
func holds(dir string, programs map[ebpf.ProgramID]bool) (bool, error) {
	pins, err := xdp.PortPins(dir)
	if err != nil {
		return false, err
	}
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			return false, err
		}
		info, err := l.Info()
		l.Close()
		if err != nil {
			return false, err
		}
		if programs[info.Program] {
			return true, nil
		}
	}
	return false, nil
}
