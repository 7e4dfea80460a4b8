package xdp

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// Bed is where programs are tried out: a thread in a network namespace of its own, on one CPU, because a program and
// its egress program share per-CPU memory. Its devices are lo and a veth pair, near and far, all up.
type Bed struct{ *thread.Thread }

// NewBed makes a namespace, in which near has a link address, and calls wire for the rest of its set-up. It needs root.
func NewBed(mac net.HardwareAddr, wire func(near netlink.Link) error) (*Bed, error) {
	t, err := thread.Start(func() error { return enterBed(mac, wire) })
	if err != nil {
		return nil, err
	}
	return &Bed{t}, nil
}

// NewBedAt makes a bed in which near has an address and a network.
func NewBedAt(address netip.Prefix) (*Bed, error) {
	return NewBed(macOf(address.Addr().As4()), func(near netlink.Link) error { return addAddress(near, address) })
}

func addAddress(near netlink.Link, address netip.Prefix) error {
	ip, bits := address.Addr().AsSlice(), address.Bits()
	return netlink.AddrAdd(near, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, 8*len(ip))}})
}

func enterBed(mac net.HardwareAddr, wire func(near netlink.Link) error) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w: run as root", err)
	}
	if err := stayOnOneCPU(); err != nil {
		return err
	}
	return makeNear(mac, wire)
}

// makeNear makes the devices of a bed in the calling thread's namespace.
func makeNear(mac net.HardwareAddr, wire func(near netlink.Link) error) error {
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
	veth.Name, veth.HardwareAddr = "near", mac
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making a veth pair: %w", err)
	}
	for _, name := range []string{loopback, "near", "far"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	near, err := netlink.LinkByName("near")
	if err != nil {
		return err
	}
	return wire(near)
}

// stayOnOneCPU binds the calling thread to the first CPU that it may use.
func stayOnOneCPU() error {
	cpu := 0
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	for !set.IsSet(cpu) {
		cpu++
	}
	set.Zero()
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}
