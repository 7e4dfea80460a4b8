package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/ether"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// Return codes of an XDP program.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpTX       = 3
	xdpRedirect = 4
)

// Hosts of the vectors and of random packets: nodes are 10.88.0.1 and following, clients 10.88.1.1
// and following.
const hosts = 20

// bench is a network namespace whose device leads to all hosts. Targets of both protocols share
// it: it gives a program in the kernel one packet at a time.
type bench struct {
	ingress, egress string // names of programs; egress makes the copies of a multicast and may be ""
	outcomes        int    // that the program counts

	bed     *xdp.Bed
	ifindex int // of its near device
	link    link.Link

	*program        // nil: none is loaded
	transit  uint64 // packets that passed without being counted
}

func newBench(ingress, egress string, outcomes int) (*bench, error) {
	b := &bench{ingress: ingress, egress: egress, outcomes: outcomes}
	var err error
	if b.bed, err = xdp.NewBed(ether.NodeMAC[:], b.reach); err != nil {
		return nil, err
	}
	return b, nil
}

// do runs f on the bed's thread.
func (b *bench) do(f func() error) error { return b.bed.Do(f) }

// Name implements [baseline.Target].
func (b *bench) Name() string { return "the XDP program" }

// Close implements [baseline.Target].
func (b *bench) Close() error {
	err := b.drop()
	if b.link != nil {
		b.link.Close()
	}
	b.bed.Close()
	return err
}

// drop closes the program that there is.
func (b *bench) drop() error {
	err := b.program.Close()
	b.program, b.transit = nil, 0
	return err
}

// reach gives every host a neighbour entry, and the FIB permission to answer.
func (b *bench) reach(near netlink.Link) error {
	b.ifindex = near.Attrs().Index
	all := net.IPNet{IP: net.IP{10, 88, 0, 0}, Mask: net.CIDRMask(16, 32)}
	errs := []error{
		os.WriteFile("/proc/sys/net/ipv4/conf/lo/forwarding", []byte("1"), 0),
		netlink.RouteAdd(&netlink.Route{LinkIndex: b.ifindex, Dst: &all, Scope: netlink.SCOPE_LINK}),
	}
	for i := range byte(2 * hosts) {
		errs = append(errs, netlink.NeighAdd(&netlink.Neigh{
			LinkIndex: b.ifindex, State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr(ether.OtherMAC[:]),
			IP: net.IP{10, 88, i / hosts, 1 + i%hosts},
		}))
	}
	return errors.Join(errs...)
}

// use makes the device ready for the program: it runs tests only once it has been set up for XDP.
func (b *bench) use() error {
	p := b.collection.Programs[b.ingress]
	if b.link != nil {
		return b.link.Update(p)
	}
	var err error
	b.link, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: b.ifindex})
	return err
}

// run executes a program on a frame as if it had come in by the device.
func (b *bench) run(p *ebpf.Program, in []byte) (action uint32, out []byte, err error) {
	var context [24]byte // struct xdp_md
	binary.NativeEndian.PutUint32(context[4:], uint32(len(in)))
	binary.NativeEndian.PutUint32(context[12:], uint32(b.ifindex))
	options := ebpf.RunOptions{Data: in, DataOut: make([]byte, 2048), Context: context[:]}
	action, err = p.Run(&options)
	return action, options.DataOut, err
}

// Step implements [baseline.Target].
func (b *bench) Step(p baseline.Packet) (sent []baseline.Packet, err error) {
	err = b.do(func() error {
		sent, err = b.give(p)
		return err
	})
	return sent, err
}

// give is like step and records packets that pass without being counted.
func (b *bench) give(p baseline.Packet) ([]baseline.Packet, error) {
	before, after := make([]uint64, b.outcomes), make([]uint64, b.outcomes)
	if err := b.counts(before); err != nil {
		return nil, err
	}
	sent, err := b.step(p)
	if err != nil {
		return nil, err
	}
	err = b.counts(after)
	if slices.Equal(before, after) {
		b.transit++
	}
	return sent, err
}

// step gives the ingress program a packet. Copies of a multicast are made by the egress program.
func (b *bench) step(in baseline.Packet) ([]baseline.Packet, error) {
	egress := b.collection.Programs[b.egress]
	action, out, err := b.run(b.collection.Programs[b.ingress], ether.Frame(in))
	switch {
	case err != nil || action == xdpDrop:
		return nil, err
	case action == xdpPass || action == xdpTX:
		p, err := ether.Packet(out)
		return []baseline.Packet{p}, err
	case action != xdpRedirect || egress == nil:
		return nil, fmt.Errorf("the program returned action %d", action)
	}
	var sent []baseline.Packet
	for range 64 {
		action, one, err := b.run(egress, out)
		if err != nil || action == xdpDrop {
			return sent, err
		}
		p, err := ether.Packet(one)
		if err != nil {
			return sent, err
		}
		sent = append(sent, p)
	}
	return nil, errors.New("the plan has no end")
}
