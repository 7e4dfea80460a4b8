package lab

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const mtuBytes = 1500

// device returns the name of a host's end of a link.
func (l *Lab) device(host, peer string) string {
	if host == RootHost {
		return rootDevice(l.Name, slices.Index(l.Plan.Peers(RootHost), peer))
	}
	return "to-" + peer
}

// rootDevice returns the name of one of the machine's links into a lab. There are at most as many
// as spines.
func rootDevice(lab string, number int) string {
	if number == 0 {
		return "nq-" + lab
	}
	return fmt.Sprintf("nq-%s-%d", lab, number+1)
}

// hardwareAddr returns a fixed address for a host's end of a link, for static neighbour entries.
func (l *Lab) hardwareAddr(host, peer string) net.HardwareAddr {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s/%s", l.Name, host, peer)
	sum := h.Sum32()
	return net.HardwareAddr{0x02, 'N', byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
}

// handle opens netlink in a host's namespace.
func (l *Lab) handle(host string) (*netlink.Handle, error) {
	if host == RootHost {
		return netlink.NewHandle(unix.NETLINK_ROUTE)
	}
	ns, err := netns.GetFromPath(nsPath(l.Name, host))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	return netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
}

// makeHost makes a host's namespace with its address on lo. It does not change the machine's own
// namespace.
func (l *Lab) makeHost(h Host) error {
	if h.Role == RoleRoot {
		return nil
	}
	if err := makeNamespace(nsPath(l.Name, h.Name)); err != nil {
		return err
	}
	if err := inNamespace(nsPath(l.Name, h.Name), setSysctls); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	nl, err := l.handle(h.Name)
	if err != nil {
		return err
	}
	defer nl.Close()
	lo, err := nl.LinkByName("lo")
	if err != nil {
		return err
	}
	if h.Addr.IsValid() {
		if err := nl.AddrAdd(lo, &netlink.Addr{IPNet: hostNet(h)}); err != nil {
			return fmt.Errorf("%s: address %v: %w", h.Name, h.Addr, err)
		}
	}
	return nl.LinkSetUp(lo)
}

func hostNet(h Host) *net.IPNet {
	return &net.IPNet{IP: h.Addr.AsSlice(), Mask: net.CIDRMask(32, 32)}
}

// setSysctls configures the calling thread's namespace as a router.
func setSysctls() error {
	for _, s := range []struct{ name, value string }{
		{"net/ipv6/conf/all/disable_ipv6", "1"},
		{"net/ipv6/conf/default/disable_ipv6", "1"},
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/rp_filter", "0"},
		{"net/ipv4/conf/default/rp_filter", "0"},
		{"net/ipv4/conf/all/send_redirects", "0"},
		{"net/ipv4/conf/default/send_redirects", "0"},
		{"net/ipv4/fib_multipath_hash_policy", "1"}, // include ports, so that a client's requests take several paths
		{"net/ipv4/ping_group_range", "0 2147483647"},
	} {
		err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0)
		if err != nil && !(errors.Is(err, os.ErrNotExist) && strings.HasPrefix(s.name, "net/ipv6/")) {
			return err
		}
	}
	return nil
}

// makeLink joins two hosts, by a veth pair or through the wires.
func (l *Lab) makeLink(link Link) error {
	if l.options.Direct {
		return l.makeVeth(link.A, l.device(link.A, link.B), l.hardwareAddr(link.A, link.B),
			link.B, l.device(link.B, link.A), l.hardwareAddr(link.B, link.A))
	}
	for _, end := range []struct{ host, peer string }{{link.A, link.B}, {link.B, link.A}} {
		err := l.makeVeth(end.host, l.device(end.host, end.peer), l.hardwareAddr(end.host, end.peer),
			wiresHost, wireDevice(end.host, end.peer), l.hardwareAddr(wireDevice(end.host, end.peer), wiresHost))
		if err != nil {
			return err
		}
	}
	return nil
}

// makeVeth makes a pair with both ends in their final namespaces and with their final names.
func (l *Lab) makeVeth(hostA, devA string, macA net.HardwareAddr, hostB, devB string, macB net.HardwareAddr) error {
	nl, err := l.handle(hostA)
	if err != nil {
		return err
	}
	defer nl.Close()
	peer, err := os.Open(nsPath(l.Name, hostB))
	if err != nil {
		return err
	}
	defer peer.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = devA, mtuBytes, macA
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: devB, PeerHardwareAddr: macB, PeerMTU: mtuBytes,
		PeerNamespace: netlink.NsFd(peer.Fd())}
	if err := nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("link %s/%s to %s/%s: %w", hostA, devA, hostB, devB, err)
	}
	for host, dev := range map[string]string{hostA: devA, hostB: devB} {
		if err := l.raise(host, dev); err != nil {
			return fmt.Errorf("%s/%s: %w", host, dev, err)
		}
	}
	return nil
}

// raise brings one end of a link up and prepares it.
func (l *Lab) raise(host, device string) error {
	nl, err := l.handle(host)
	if err != nil {
		return err
	}
	defer nl.Close()
	dev, err := nl.LinkByName(device)
	if err != nil {
		return err
	}
	if host == RootHost {
		if err := l.prepareRoot(nl, dev); err != nil {
			return err
		}
	}
	if err := nl.LinkSetUp(dev); err != nil {
		return err
	}
	if l.options.Direct && l.options.Offloads {
		return nil
	}
	return inNamespace(nsPath(l.Name, host), func() error {
		if err := SetOffloads(device); err != nil {
			return err
		}
		if h, ok := l.Plan.Host(host); ok && l.options.Direct && h.Role != RoleNode { // a node's agent attaches its own
			return OpenToXDP(device)
		}
		return nil
	})
}

// prepareRoot applies to the machine's end of a link the settings that other hosts have on lo and
// in their namespaces. They disappear with the link.
func (l *Lab) prepareRoot(nl *netlink.Handle, dev netlink.Link) error {
	device := dev.Attrs().Name
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/disable_ipv6", []byte("1"), 0) // avoids IPv6 traffic on the link
	_ = os.WriteFile("/proc/sys/net/ipv4/conf/"+device+"/rp_filter", []byte("0"), 0)    // needed only if strict
	root, err := l.Host(RootHost)
	if err != nil {
		return err
	}
	return nl.AddrReplace(dev, &netlink.Addr{IPNet: hostNet(root)})
}

// setRoutes sets a host's neighbours and its routes to all other hosts. It may be repeated after a
// change.
func (l *Lab) setRoutes(host Host) error {
	nl, err := l.handle(host.Name)
	if err != nil {
		return err
	}
	defer nl.Close()
	index := map[string]int{}
	for _, peer := range l.Plan.Peers(host.Name) {
		dev, err := nl.LinkByName(l.device(host.Name, peer))
		if err != nil {
			return fmt.Errorf("%s: link to %s: %w", host.Name, peer, err)
		}
		index[peer] = dev.Attrs().Index
		if link, _ := l.Plan.Link(host.Name + "-" + peer); l.down[link] {
			continue
		}
		p, _ := l.Plan.Host(peer)
		err = nl.NeighSet(&netlink.Neigh{LinkIndex: index[peer], State: netlink.NUD_PERMANENT, Family: unix.AF_INET,
			IP: p.Addr.AsSlice(), HardwareAddr: l.hardwareAddr(peer, host.Name)})
		if err != nil {
			return fmt.Errorf("%s: neighbour %s: %w", host.Name, peer, err)
		}
	}
	reachable := map[string]bool{}
	for _, r := range l.Plan.routes(host.Name, l.down) {
		reachable[r.to.Name] = true
		if err := nl.RouteReplace(l.kernelRoute(host, r, index)); err != nil {
			return fmt.Errorf("%s: route to %s: %w", host.Name, r.to.Name, err)
		}
	}
	for _, to := range l.Plan.Hosts {
		if to.Name != host.Name && !reachable[to.Name] {
			err := nl.RouteDel(&netlink.Route{Dst: hostNet(to)})
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("%s: drop route to %s: %w", host.Name, to.Name, err)
			}
		}
	}
	return nil
}

// kernelRoute converts a route to netlink's form. Links have no addresses: next hops are the
// neighbours' addresses, reached "onlink".
func (l *Lab) kernelRoute(host Host, r route, index map[string]int) *netlink.Route {
	kernel := &netlink.Route{Dst: hostNet(r.to), Src: host.Addr.AsSlice()}
	if len(r.hops) == 1 {
		hop, _ := l.Plan.Host(r.hops[0])
		kernel.LinkIndex, kernel.Gw, kernel.Flags = index[hop.Name], hop.Addr.AsSlice(), int(netlink.FLAG_ONLINK)
		return kernel
	}
	for _, name := range r.hops {
		hop, _ := l.Plan.Host(name)
		kernel.MultiPath = append(kernel.MultiPath, &netlink.NexthopInfo{
			LinkIndex: index[name], Gw: hop.Addr.AsSlice(), Flags: int(netlink.FLAG_ONLINK)})
	}
	return kernel
}
