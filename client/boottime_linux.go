package client

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is the time since some moment in the past, sleep included. Go's own clock stands still while the machine
// sleeps.
func bootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return wallTime()
	}
	return time.Duration(t.Nano())
}
