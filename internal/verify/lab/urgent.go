package lab

import (
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// clientNiceness gives clients and processes of a lab priority over everything outside the
// real-time class. A lab runs many machines on one, and other load on that machine must not look
// like failures of hosts. Agents and controllers, which need little CPU time but soon, set their
// own priority.
const clientNiceness = -20

// RunBeforeOthers gives all threads of this process that priority. It has no effect without the
// permission. Linux keeps a priority per thread; new threads inherit it.
func RunBeforeOthers() {
	_ = scheduling.EachThread(func(id int) error { return unix.Setpriority(unix.PRIO_PROCESS, id, clientNiceness) })
}
