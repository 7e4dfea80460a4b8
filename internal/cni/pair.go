package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// pair is a pod's veth pair.
type pair struct {
	netns *os.File // of the pod
	end   pods.End // in the pod
	host  netlink.LinkAttrs
}

// find finds the pair of which a pod has an end. The caller closes it.
func find(netns, ifname string) (*pair, error) {
	file, err := openPod(netns)
	if err != nil {
		return nil, err
	}
	p := &pair{netns: file}
	if err := p.identify(ifname); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// identify finds both ends of the pair.
func (p *pair) identify(ifname string) error {
	own, err := namespaceCookie()
	if err != nil {
		return err
	}
	parent := 0
	err = p.inPod(func() error {
		if p.end.Namespace, err = namespaceCookie(); err != nil {
			return err
		}
		if p.end.Namespace == own {
			return types.NewError(types.ErrInvalidNetNS, "netcraq-cni: CNI_NETNS names the machine's own network namespace",
				"give that of a pod")
		}
		l, err := netlink.LinkByName(ifname)
		if err != nil {
			return types.NewError(types.ErrUnknownContainer, "netcraq-cni: the pod has no interface "+ifname, err.Error())
		}
		if l.Type() != "veth" {
			return invalid("%s is of the kind %s: only pods with a veth pair are served: put this plugin behind bridge or ptp",
				ifname, l.Type())
		}
		parent, p.end.Index = l.Attrs().ParentIndex, l.Attrs().Index
		return nil
	})
	if err != nil {
		return err
	}
	return p.findHost(ifname, parent)
}

// findHost finds the end of the pair on this machine. Its index alone does not tell it from interfaces of other
// namespaces: the kernel has to say that its peer is in the pod's.
func (p *pair) findHost(ifname string, index int) error {
	host, err := netlink.LinkByIndex(index) // gives the peer's namespace an identifier, if it has none
	if err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) {
		return err
	}
	id, idErr := netlink.GetNetNsIdByFd(int(p.netns.Fd()))
	if idErr != nil {
		return fmt.Errorf("identifier of the pod's network namespace: %w", idErr)
	}
	const none = -1
	if err != nil || host.Type() != "veth" || host.Attrs().ParentIndex != p.end.Index || id == none ||
		host.Attrs().NetNsID != id {
		return invalid("the other end of %s is in another network namespace: the plugin serves pods that are "+
			"joined to this machine", ifname)
	}
	p.host = *host.Attrs()
	return nil
}

// openPod opens the network namespace of a pod.
func openPod(path string) (*os.File, error) {
	file, err := thread.OpenNamespace(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, types.NewError(types.ErrUnknownContainer, "netcraq-cni: the pod has no network namespace", err.Error())
	case errors.Is(err, thread.ErrNoNamespace):
		return nil, types.NewError(types.ErrInvalidNetNS, "netcraq-cni: CNI_NETNS names no network namespace", err.Error())
	}
	return file, err
}

// namespaceCookie returns the number of the calling thread's network namespace. The kernel gives no number twice, other
// than inode numbers. ADD records it with the interface's index, and DEL undoes what the record names: when a late DEL
// comes, CNI_NETNS may be another pod's path.
func namespaceCookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	return unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

func (p *pair) close() { p.netns.Close() }

// inPod runs f on a thread in the pod's network namespace.
func (p *pair) inPod(f func() error) error { return inNamespace(p.netns, f) }

func inNamespace(netns *os.File, f func() error) error {
	return thread.In(fmt.Sprintf("/proc/self/fd/%d", int(netns.Fd())), f)
}

// way is what leads a pod to the chain: a route to an address by the pod's end, and a neighbour entry.
type way struct {
	index int // of the pod's end
	addr  netip.Addr
}

// route returns the route to the address by the host's end. A pod may have several interfaces that lead to one address:
// each has a route of its own, told apart by the metric, and the interface with the lowest index is used.
func (w way) route() *netlink.Route {
	return &netlink.Route{LinkIndex: w.index, Scope: netlink.SCOPE_LINK, Priority: w.index, Dst: &net.IPNet{
		IP: w.addr.AsSlice(), Mask: net.CIDRMask(w.addr.BitLen(), w.addr.BitLen())}}
}

// neighbour says that the address is at the host's end, so that the pod does not ask for it: nothing on the machine has
// the address.
func (w way) neighbour(host net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: w.index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: w.addr.AsSlice(),
		HardwareAddr: host}
}

// make gives the calling thread's namespace its way to the address.
func (w way) make(host net.HardwareAddr) error {
	if err := netlink.RouteReplace(w.route()); err != nil {
		return fmt.Errorf("the route of the pod to %v: %w", w.addr, err)
	}
	if err := netlink.NeighSet(w.neighbour(host)); err != nil {
		return fmt.Errorf("the neighbour entry of the pod for %v: %w", w.addr, err)
	}
	return nil
}

// undo takes away what make and receive added. It succeeds if that is gone.
func (w way) undo() error {
	l, err := netlink.LinkByIndex(w.index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, err := range []error{netlink.RouteDel(w.route()), netlink.NeighDel(w.neighbour(nil)), ignore(l)} {
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// check returns an error if the calling thread's namespace has lost its way to the address.
func (w way) check(host net.HardwareAddr) error {
	found, err := netlink.RouteListFiltered(netlink.FAMILY_V4, w.route(), netlink.RT_FILTER_DST|netlink.RT_FILTER_OIF)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("the pod has no route to %v by interface %d", w.addr, w.index)
	}
	known, err := netlink.NeighList(w.index, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, n := range known {
		if n.IP.Equal(w.addr.AsSlice()) && n.State == netlink.NUD_PERMANENT && n.HardwareAddr.String() == host.String() {
			return w.source()
		}
	}
	return fmt.Errorf("the pod has no neighbour entry that leads %v to %v", w.addr, host)
}

// source returns an error if the calling thread's namespace has no IPv4 address to send from.
func (w way) source() error {
	routes, err := netlink.RouteGetWithOptions(w.addr.AsSlice(), &netlink.RouteGetOptions{OifIndex: w.index})
	if err != nil {
		return fmt.Errorf("looking up the route to %v: %w", w.addr, err)
	}
	for _, r := range routes {
		if !r.Src.IsUnspecified() && len(r.Src) > 0 {
			return nil
		}
	}
	return errNoIPv4
}

var errNoIPv4 = errors.New("the pod has no IPv4 address to send from, and the chain speaks IPv4 only")
