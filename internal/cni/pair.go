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

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// pair is a pod's veth pair.
type pair struct {
	netns  string // of the pod, a path
	ifname string // of the pod's end
	pod    int    // index of the pod's end
	host   netlink.LinkAttrs
}

// find finds the pair of which a pod has an end.
func find(netns, ifname string) (*pair, error) {
	p := &pair{netns: netns, ifname: ifname}
	parent := 0
	err := thread.In(netns, func() error {
		l, err := netlink.LinkByName(ifname)
		if err != nil {
			return types.NewError(types.ErrUnknownContainer, "netcraq-cni: the pod has no interface "+ifname, err.Error())
		}
		if l.Type() != "veth" {
			return invalid("%s is of the kind %s: only pods with a veth pair are served: put this plugin behind bridge or ptp",
				ifname, l.Type())
		}
		p.pod, parent = l.Attrs().Index, l.Attrs().ParentIndex
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil, types.NewError(types.ErrUnknownContainer, "netcraq-cni: the pod has no network namespace", err.Error())
	}
	if err != nil {
		return nil, err
	}
	host, err := netlink.LinkByIndex(parent)
	if err != nil || host.Type() != "veth" || host.Attrs().ParentIndex != p.pod {
		return nil, invalid("the other end of %s is in another network namespace: the plugin serves pods that are "+
			"joined to this machine", ifname)
	}
	p.host = *host.Attrs()
	return p, nil
}

func (p *pair) inPod(f func() error) error { return thread.In(p.netns, f) }

// route returns the route from the pod to an address by the host's end.
func (p *pair) route(addr netip.Addr) *netlink.Route {
	return &netlink.Route{LinkIndex: p.pod, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{
		IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}}
}

// neighbour says that the address is at the host's end, so that the pod does not ask for it: nothing on the machine has
// the address.
func (p *pair) neighbour(addr netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: p.pod, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(),
		HardwareAddr: p.host.HardwareAddr}
}

// prepare gives the pod its way to the address. native reports whether the pod's end takes answers that a driver sends.
func (p *pair) prepare(addr netip.Addr) (native bool, err error) {
	err = p.inPod(func() error {
		native = receive(p.pod) == nil // else the agent attaches in generic mode
		if err := netlink.RouteReplace(p.route(addr)); err != nil {
			return fmt.Errorf("the route of the pod to %v: %w", addr, err)
		}
		if err := netlink.NeighSet(p.neighbour(addr)); err != nil {
			return fmt.Errorf("the neighbour entry of the pod for %v: %w", addr, err)
		}
		return nil
	})
	return native, err
}

// undo removes the route to the address. It succeeds if the route is gone.
func (p *pair) undo(addr netip.Addr) error {
	return p.inPod(func() error {
		var errs []error
		for _, err := range []error{netlink.RouteDel(p.route(addr)), netlink.NeighDel(p.neighbour(addr)), ignore(p.pod)} {
			if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// check returns an error if the pod has lost its way to the address.
func (p *pair) check(addr netip.Addr) error {
	return p.inPod(func() error {
		found, err := netlink.RouteListFiltered(netlink.FAMILY_V4, p.route(addr), netlink.RT_FILTER_DST|netlink.RT_FILTER_OIF)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("the pod has no route to %v by %s", addr, p.ifname)
		}
		known, err := netlink.NeighList(p.pod, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, n := range known {
			if n.IP.Equal(addr.AsSlice()) && n.State == netlink.NUD_PERMANENT &&
				n.HardwareAddr.String() == p.host.HardwareAddr.String() {
				return nil
			}
		}
		return fmt.Errorf("the pod has no neighbour entry that leads %v to %s", addr, p.host.Name)
	})
}
