package lab

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Real-time priorities. A lab squeezes many machines into one, and what shares that with the lab must not make them look as
// if they had failed: agents and controllers run before everything, and clients that measure them before everything else.
const (
	clientPriority  = 1
	servicePriority = 2
)

// urgently lets the calling thread, which the caller is locked to, run before all others until back is called; if the
// machine does not let it, nothing changes.
func urgently() (back func()) {
	const self = 0
	before, err := unix.SchedGetAttr(self, 0)
	if err != nil || setPriority(self, servicePriority) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(self, before, 0) } // what was allowed before is again
}

func setPriority(thread int, priority uint32) error {
	return unix.SchedSetAttr(thread, &unix.SchedAttr{Policy: unix.SCHED_RR, Priority: priority}, 0)
}

// RunBeforeOthers lets all of this process run before others on this machine, but after what runs in managed labs. If the
// machine does not let it, it stays as it is. Linux keeps a priority for each thread; threads that are started later inherit it.
func RunBeforeOthers() {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil && errors.Is(setPriority(id, clientPriority), unix.EPERM) {
			return
		}
	}
}
