package lab

import (
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// clientNiceness lets clients, and what a lab starts, run before everything that is not of the real-time class. A lab squeezes
// many machines into one, and what shares that with the lab must not make them look as if they had failed. Agents and
// controllers, which need their turn soon and little of it, say so to the kernel themselves.
const clientNiceness = -20

// RunBeforeOthers lets all of this process run before others on this machine. If the
// machine does not let it, it stays as it is. Linux keeps a priority for each thread; threads that are started later inherit it.
func RunBeforeOthers() {
	_ = scheduling.EachThread(func(id int) error { return unix.Setpriority(unix.PRIO_PROCESS, id, clientNiceness) })
}
