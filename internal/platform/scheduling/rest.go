package scheduling

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Pause returns the pause after a part of long work that took worked.
type Pause func(worked time.Duration) time.Duration

// Rest returns the pause that deferrable work, such as a copy, makes after each part. A process of the real-time class
// blocks a CPU while it runs, and the kernel is slow to move the threads that wait for that CPU. So the process as a whole
// keeps to a quarter of a CPU while such work goes on. With pauses of four times the work, for each task by itself, three
// nodes that copied on a machine of two CPUs used both for up to 40 ms, and clients waited for 32 ms; before any pause,
// for 98 ms while a node joined chains of 1,000,000 objects. So --copy-kib-s can only lower the rate of copies.
func Rest(worked time.Duration) time.Duration {
	used, err := processTime()
	if err != nil { // no kernel that has XDP lacks this clock
		return 4 * worked
	}
	return process.rest(time.Now(), used)
}

// process is the budget of this process.
var process budget

// ShortRest is Rest for short work that the cluster waits for: the return of a node that kept its state. Work that took
// much longer than a part has waited for something itself.
func ShortRest(worked time.Duration) time.Duration { return min(worked/3, longestRest) }

// preciseUpTo is the longest pause that [Sleep] leaves to the kernel.
const preciseUpTo = 2 * time.Millisecond

// Sleep is [time.Sleep] for the pauses in long work. Go's timers wait in epoll_wait, which counts milliseconds, so they
// make a pause of 0.2 ms one of 1 ms. Sleep leaves short pauses to the kernel's timers, which keep a thread for that time.
func Sleep(d time.Duration) {
	if d <= 0 || d > preciseUpTo {
		time.Sleep(d)
		return
	}
	rest := unix.NsecToTimespec(d.Nanoseconds())
	// An interrupted call leaves the time that is left in rest. There is no other error.
	_ = eintr.Retry(func() error { return unix.Nanosleep(&rest, &rest) })
}

// Wait is [Sleep] that ends early, with the context's error, if the context ends. A short pause is over soon in any case.
func Wait(ctx context.Context, d time.Duration) error {
	if d <= preciseUpTo {
		Sleep(d)
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
