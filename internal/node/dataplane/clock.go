package dataplane

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// BootTime is the clock of leases: it goes on while the machine sleeps, so that a lease ends then too. Every Linux
// since 2.6.39 has it; 0, when every lease is over, stands for a failure.
func BootTime() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}

// LeaseUntil returns the end of a lease that lasts for d from now. It ended before now if d is negative, and was never
// granted if d is zero. The end is never before the beginning of the clock, which may be a minute ago.
func LeaseUntil(now uint64, d time.Duration) uint64 {
	switch {
	case d == Forever:
		return chain.Forever
	case d == 0, d < 0 && uint64(-d) > now:
		return 0
	}
	return now + uint64(d) // modulo 2^64: a negative d is subtracted
}
