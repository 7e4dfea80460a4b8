package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

const (
	// bridge in the control machine's namespace joins all machines. Its ports have the machines' names.
	bridge = "machines"
	// uplink is a worker's device, by the name that the manifests have.
	uplink = "eth0"
	// rootPort is the bridge's port to the machine that the cluster runs on.
	rootPort = "root"
)

func namespaceOf(p lab.Process) string { return fmt.Sprintf("/proc/%d/ns/net", p.PID) }

// handleAt opens netlink in a machine's namespace.
func handleAt(p lab.Process) (*netlink.Handle, error) {
	ns, err := netns.GetFromPath(namespaceOf(p))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
}

// checkRoutes returns an error if this machine uses the cluster's addresses already.
func checkRoutes() error {
	routes, err := netlink.RouteList(nil, unix.AF_INET)
	if err != nil {
		return err
	}
	ours := netip.MustParsePrefix(machineNet)
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		addr, _ := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if bits > 0 && netip.PrefixFrom(addr, bits).Overlaps(ours) {
			return fmt.Errorf("this machine has a route to %v, which the cluster needs for itself. If another cluster is up, "+
				"take it down; if not, use a network of its own: `unshare --net` starts a shell with one", r.Dst)
		}
	}
	return nil
}

// joinControl makes the bridge in the control machine's namespace, and the link from this machine's own.
func joinControl(name string, control lab.Process) error {
	inside, err := handleAt(control)
	if err != nil {
		return err
	}
	defer inside.Close()
	if err := raiseLoopback(inside); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridge
	if err := inside.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if err := setAddress(inside, bridge, controlAddr); err != nil {
		return err
	}
	root, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := addPort(inside, control, rootPort, root, rootDevice(name)); err != nil {
		return err
	}
	if err := setAddress(root, rootDevice(name), rootAddr); err != nil {
		return err
	}
	return routeToPods(inside, host{})
}

// joinWorker links a worker to the bridge.
func joinWorker(h host, worker, control lab.Process) error {
	inside, err := handleAt(worker)
	if err != nil {
		return err
	}
	defer inside.Close()
	at, err := handleAt(control)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := removeDevice(at, h.name); err != nil { // of a machine that has ended
		return err
	}
	if err := addPort(at, control, h.name, inside, uplink); err != nil {
		return err
	}
	if err := setAddress(inside, uplink, h.addr); err != nil {
		return err
	}
	if err := raiseLoopback(inside); err != nil {
		return err
	}
	if err := routeToPods(inside, h); err != nil {
		return err
	}
	if err := thread.In(namespaceOf(worker), func() error { return lab.SetOffloads(uplink) }); err != nil {
		return err
	}
	return thread.In(namespaceOf(control), func() error {
		return errors.Join(lab.SetOffloads(h.name), lab.OpenToXDP(h.name))
	})
}

// addPort makes a pair of devices: a port of the bridge, and a device in another namespace.
func addPort(at *netlink.Handle, control lab.Process, port string, inside *netlink.Handle, device string) error {
	ns, err := os.Open(namespaceOf(control))
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = device
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: port, PeerNamespace: netlink.NsFd(ns.Fd())}
	if err := inside.LinkAdd(pair); err != nil {
		return fmt.Errorf("link %s to the bridge: %w", device, err)
	}
	end, err := at.LinkByName(port)
	if err != nil {
		return err
	}
	over, err := at.LinkByName(bridge)
	if err != nil {
		return err
	}
	return errors.Join(at.LinkSetMaster(end, over), at.LinkSetUp(end))
}

// setAddress gives a device an address in the machines' network, and brings it up.
func setAddress(at *netlink.Handle, device, addr string) error {
	dev, err := at.LinkByName(device)
	if err != nil {
		return err
	}
	bits := netip.MustParsePrefix(machineNet).Bits()
	ip := &net.IPNet{IP: net.ParseIP(addr), Mask: net.CIDRMask(bits, 32)}
	if err := at.AddrAdd(dev, &netlink.Addr{IPNet: ip}); err != nil {
		return fmt.Errorf("%s: address %s: %w", device, addr, err)
	}
	return at.LinkSetUp(dev)
}

func raiseLoopback(at *netlink.Handle) error {
	lo, err := at.LinkByName("lo")
	if err != nil {
		return err
	}
	return at.LinkSetUp(lo)
}

// routeToPods adds routes to the pods of all machines but one.
func routeToPods(at *netlink.Handle, own host) error {
	for _, h := range workerHosts() {
		if h.name == own.name {
			continue
		}
		_, pods, err := net.ParseCIDR(h.pods)
		if err != nil {
			return err
		}
		if err := at.RouteReplace(&netlink.Route{Dst: pods, Gw: net.ParseIP(h.addr)}); err != nil {
			return fmt.Errorf("route to the pods of %s: %w", h.name, err)
		}
	}
	return nil
}

// removeDevice removes a device if it is there.
func removeDevice(at *netlink.Handle, name string) error {
	dev, err := at.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	err = at.LinkDel(dev)
	if errors.Is(err, unix.ENODEV) { // its namespace was being removed
		return nil
	}
	return err
}
