package scheduling

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

const (
	// share is the part of one CPU that a process uses while it does deferrable work, everything else that it does
	// included: threads that receive and send for a copy use as much CPU time as the copy itself.
	share = 0.25
	// longestRest bounds a pause, so that deferrable work goes on in a process that uses more than its share anyway.
	longestRest = 10 * time.Millisecond
)

// budget is the CPU time that a process has left for deferrable work.
type budget struct {
	mu   sync.Mutex
	at   time.Time     // of the last call
	used time.Duration // CPU time of the process at that time
	over time.Duration // CPU time that was used beyond the share
}

// rest returns the pause after which the process has used no more than its share. All deferrable work of the process
// together keeps to the share, because each part of it adds to the pauses of the others.
func (b *budget) rest(now time.Time, used time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	allowed := time.Duration(share * float64(now.Sub(b.at)))
	b.over = min(max(0, b.over+used-b.used-allowed), time.Duration(share*float64(longestRest)))
	b.at, b.used = now, used
	return time.Duration(float64(b.over) / share)
}

// processTime returns the CPU time that this process has used.
func processTime() (time.Duration, error) {
	var t unix.Timespec
	err := eintr.Retry(func() error { return unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) })
	return time.Duration(t.Nano()), err
}
