package client

import (
	"time"

	"github.com/netcraq/netcraq/wire"
)

// overslept reports whether a write began so long ago that it must not be sent again (W10), which call.until does not
// say if the machine slept: nodes that were awake meanwhile may have forgotten the write's session, and would take
// the next attempt for a new write. The boot clock of a virtual machine may stand still while it is paused; the wall
// clock shows that once it has been corrected. A machine that falls asleep between this look and the system call that
// sends is not noticed.
func (k *call) overslept() bool {
	const limit = wire.MaxRetryS * time.Second
	return k.client().bootTime()-k.start.booted > limit ||
		k.client().wallTime()-time.Duration(k.start.now.UnixNano()) > limit
}

// wallTime is the clock on the wall, where no better one runs during sleep.
func wallTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
