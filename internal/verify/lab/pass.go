package lab

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// xdpPass is XDP_PASS of linux/bpf.h.
const xdpPass = 2

// openToXDP gives a device a program that lets everything pass. GRO is enough for a veth device to be sent frames by
// an XDP program at its peer, but with XDP_TX the peer wakes the device only if that has a program too: the answers of a node
// would lie in its ring until something else is sent there, and once it is full nothing ever is. The calling thread must
// be in the device's namespace; the device keeps the program.
func openToXDP(device string) error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "pass", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load an XDP program: %w", err)
	}
	defer pass.Close()
	dev, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetXdpFdWithFlags(dev, pass.FD(), nl.XDP_FLAGS_DRV_MODE); err != nil {
		return fmt.Errorf("%s: attach an XDP program: %w", device, err)
	}
	return nil
}
