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

// OpenToXDP attaches a program that passes everything to a device. For redirects from an XDP
// program at the peer, GRO on a veth device is enough. For XDP_TX the peer wakes the device only if
// the device has a program too. Without it, a node's answers would stay in the device's ring until
// other traffic arrives, and a full ring would block for good. The calling thread must be in the
// device's namespace. The device keeps the program.
func OpenToXDP(device string) error {
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
