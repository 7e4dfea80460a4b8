package dataplane

import "golang.org/x/sys/unix"

// BootTime is the clock of leases: it goes on while the machine sleeps, so that a lease ends then too. Every Linux since 2.6.39
// has it; 0, when every lease is over, stands for a failure.
func BootTime() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
