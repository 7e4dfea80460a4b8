package lab

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A lab squeezes many machines into one, and what shares that with the lab must not make them look as if they had failed:
// agents and controllers are of the real-time class. Clients, which need far more time, come after them, but before everything
// else: were they real-time too, the kernel would stop that whole class for 50 ms in every second.
const (
	servicePriority = 2   // in the real-time class
	clientNiceness  = -20 // in the ordinary one
)

// urgently lets the calling thread, which the caller is locked to, run before all others until back is called; if the
// machine does not let it, nothing changes.
func urgently() (back func()) {
	const self = 0
	before, err := unix.SchedGetAttr(self, 0)
	if err != nil || unix.SchedSetAttr(self, &unix.SchedAttr{Policy: unix.SCHED_RR, Priority: servicePriority}, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(self, before, 0) } // what was allowed before is again
}

// RunBeforeOthers lets all of this process run before others on this machine, but after what runs in managed labs. If the
// machine does not let it, it stays as it is. Linux keeps a priority for each thread; threads that are started later inherit it.
func RunBeforeOthers() {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil && errors.Is(unix.Setpriority(unix.PRIO_PROCESS, id, clientNiceness), unix.EACCES) {
			return
		}
	}
}
