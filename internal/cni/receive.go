package cni

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// passName is the name in the kernel of the program at a pod's end.
const passName = "nq_pod_pass"

// receive makes an end of a veth pair take what the driver of the other end sends by XDP_TX: veth wakes only an end
// that has a native program, and leaves the frames in its ring otherwise. The program passes everything.
func receive(index int) error {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return err
	}
	if xdp := l.Attrs().Xdp; xdp != nil && xdp.AttachMode == nl.XDP_ATTACHED_DRV {
		return nil
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: passName, Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}) // XDP_PASS
	if err != nil {
		return err
	}
	defer program.Close()
	return netlink.LinkSetXdpFdWithFlags(l, program.FD(), nl.XDP_FLAGS_DRV_MODE|nl.XDP_FLAGS_UPDATE_IF_NOEXIST)
}

// ignore takes receive's program away, and no other.
func ignore(l netlink.Link) error {
	if l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
		return nil
	}
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(l.Attrs().Xdp.ProgId))
	if err != nil {
		return err
	}
	defer program.Close()
	if info, err := program.Info(); err != nil || info.Name != passName {
		return err
	}
	return netlink.LinkSetXdpFdWithFlags(l, -1, nl.XDP_FLAGS_DRV_MODE)
}
