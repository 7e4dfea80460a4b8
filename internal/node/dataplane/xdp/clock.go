package xdp

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// clockSlack is how far both clocks may be apart: the kernel's fast clock may miss an adjustment for a moment.
const clockSlack = time.Millisecond

// clockTries is how often the clocks are compared until they agree.
const clockTries = 5

// ErrClock says that this process reads another boot clock than the kernel's programs. Then no lease that it grants ends
// when it should.
var ErrClock = errors.New("this process is in a time namespace, whose boot clock is not the kernel's: " +
	"leases of the XDP plane would not end in time; start the node outside of it, or use --plane soft")

// checkClock compares the boot clock of BPF programs with that of this process. A time namespace changes only the latter.
func checkClock() error {
	var apart time.Duration
	for range clockTries {
		before := dataplane.BootTime()
		kernel, err := kernelBootTime()
		if err != nil {
			return fmt.Errorf("reading the kernel's boot clock: %w", err)
		}
		after := dataplane.BootTime()
		switch {
		case kernel < before:
			apart = -time.Duration(before - kernel)
		case kernel > after:
			apart = time.Duration(kernel - after)
		default:
			return nil
		}
		if apart.Abs() <= clockSlack {
			return nil
		}
	}
	return fmt.Errorf("%w (its clock minus the kernel's: %v)", ErrClock, -apart.Round(time.Millisecond))
}

// kernelBootTime runs a program that reads the clock of bpf_ktime_get_boot_ns, as the data plane does.
func kernelBootTime() (uint64, error) {
	result, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return 0, err
	}
	defer result.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{
			asm.FnKtimeGetBootNs.Call(),
			asm.LoadMapValue(asm.R1, result.FD(), 0),
			asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord),
			asm.Mov.Imm(asm.R0, xdpDrop),
			asm.Return(),
		},
	})
	if err != nil {
		return 0, err
	}
	defer program.Close()
	if _, err := program.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
		return 0, err
	}
	var now uint64
	return now, result.Lookup(uint32(0), &now)
}
