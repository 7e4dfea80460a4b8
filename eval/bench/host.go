package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/ethtool"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// host is a network namespace of the benchmark.
type host struct {
	ns     netns.NsHandle
	handle *netlink.Handle
	idle   int // idle ports made so far
}

// newHost makes a namespace with the loopback interface up and forwarding enabled.
func newHost() (*host, error) {
	h := &host{ns: netns.None()}
	err := thread.Do(func() error {
		var err error
		if h.ns, err = netns.New(); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		return writeSettings(map[string]string{
			"/proc/sys/net/ipv4/ip_forward":                  "1",
			"/proc/sys/net/ipv6/conf/all/disable_ipv6":       "1",
			"/proc/sys/net/ipv6/conf/default/disable_ipv6":   "1",
			"/proc/sys/net/ipv4/conf/all/rp_filter":          "0",
			"/proc/sys/net/ipv4/conf/default/rp_filter":      "0",
			"/proc/sys/net/ipv4/conf/default/forwarding":     "1",
			"/proc/sys/net/ipv4/conf/default/send_redirects": "0",
		})
	})
	if err != nil {
		return nil, err
	}
	if h.handle, err = netlink.NewHandleAt(h.ns, unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	lo, err := h.handle.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	return h, h.handle.LinkSetUp(lo)
}

// writeSettings writes sysctls of the calling thread's namespace. It skips those that this kernel
// lacks.
func writeSettings(settings map[string]string) error {
	for path, value := range settings {
		if err := os.WriteFile(path, []byte(value), 0); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// close releases the namespace. The kernel removes it and its links after its last user.
func (h *host) close() {
	h.handle.Close()
	h.ns.Close()
}

// do runs f on a thread inside the namespace.
func (h *host) do(f func() error) error {
	return thread.Do(func() error {
		if err := netns.Set(h.ns); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// port is one end of a link.
type port struct {
	host  *host
	name  string
	index int
	mac   net.HardwareAddr
	addr  netip.Addr
}

// connect joins two hosts by a veth pair. Static neighbour entries keep ARP off the link.
func connect(a *host, aName string, aAddr netip.Addr, b *host, bName string, bAddr netip.Addr) (*port, *port, error) {
	queues := runtime.NumCPU()
	pair := &netlink.Veth{
		LinkAttrs:       netlink.LinkAttrs{Name: aName, MTU: 1500, NumRxQueues: queues, NumTxQueues: queues},
		PeerName:        bName,
		PeerNamespace:   netlink.NsFd(b.ns),
		PeerMTU:         1500,
		PeerNumRxQueues: uint32(queues),
		PeerNumTxQueues: uint32(queues),
	}
	if err := a.handle.LinkAdd(pair); err != nil {
		return nil, nil, fmt.Errorf("make a veth pair: %w", err)
	}
	left, err := openPort(a, aName, aAddr)
	if err != nil {
		return nil, nil, err
	}
	right, err := openPort(b, bName, bAddr)
	if err != nil {
		return nil, nil, err
	}
	if err := left.knows(right); err != nil {
		return nil, nil, err
	}
	return left, right, right.knows(left)
}

// openPort brings up one end of a link. GRO makes the kernel poll it (NAPI); without that, XDP
// cannot redirect frames to it.
func openPort(h *host, name string, addr netip.Addr) (*port, error) {
	link, err := h.handle.LinkByName(name)
	if err != nil {
		return nil, err
	}
	p := &port{host: h, name: name, index: link.Attrs().Index, mac: link.Attrs().HardwareAddr, addr: addr}
	if err := h.handle.AddrAdd(link, &netlink.Addr{IPNet: single(addr)}); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("address %v on %s: %w", addr, name, err)
	}
	if err := h.handle.LinkSetUp(link); err != nil {
		return nil, err
	}
	return p, h.do(func() error {
		if err := ethtool.SetGRO(name, true); err != nil {
			return fmt.Errorf("enable GRO on %s: %w", name, err)
		}
		return nil
	})
}

// knows adds the route and the neighbour entry for the other end.
func (p *port) knows(other *port) error {
	route := &netlink.Route{LinkIndex: p.index, Dst: single(other.addr), Src: p.addr.AsSlice(), Scope: netlink.SCOPE_LINK}
	if err := p.host.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("route to %v by %s: %w", other.addr, p.name, err)
	}
	return p.host.handle.NeighSet(&netlink.Neigh{
		LinkIndex: p.index, State: netlink.NUD_PERMANENT, IP: other.addr.AsSlice(), HardwareAddr: other.mac,
	})
}

// awaitUp waits until the kernel sends packets of sockets out of this port. The kernel notices up
// to a second late that the other end is up.
func (p *port) awaitUp() error {
	const patience = 10 * time.Second
	for start := time.Now(); time.Since(start) < patience; time.Sleep(time.Millisecond) {
		link, err := p.host.handle.LinkByIndex(p.index)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
	}
	return fmt.Errorf("%s is not up after %v", p.name, patience)
}

// received counts the packets that arrived at this end.
func (p *port) received() (uint64, error) {
	link, err := p.host.handle.LinkByIndex(p.index)
	if err != nil {
		return 0, err
	}
	return link.Attrs().Statistics.RxPackets, nil
}

func single(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// idlePort makes a port that never receives a packet.
func (h *host) idlePort() (*port, error) {
	h.idle++
	name := fmt.Sprintf("idle%d", h.idle)
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "x"}
	if err := h.handle.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("make a veth pair: %w", err)
	}
	link, err := h.handle.LinkByName(name)
	if err != nil {
		return nil, err
	}
	return &port{host: h, name: name, index: link.Attrs().Index, mac: link.Attrs().HardwareAddr}, nil
}
