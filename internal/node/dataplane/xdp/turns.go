package xdp

import (
	"sync"

	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// turns lets one task at a time use a table as a whole: a walk, or a deletion. Tasks that are not urgent give way: they
// begin only when no urgent one waits or runs, and walks stop and begin again later.
type turns struct {
	mu     sync.Mutex
	next   *sync.Cond
	taken  bool
	urgent int // urgent tasks that wait or run
}

func newTurns() *turns {
	t := new(turns)
	t.next = sync.NewCond(&t.mu)
	return t
}

// take waits for a turn.
func (t *turns) take(p pace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.urgent {
		t.urgent++
	}
	for t.taken || !p.urgent && t.urgent > 0 {
		t.next.Wait()
	}
	t.taken = true
}

// end ends a turn that was taken with the same pace.
func (t *turns) end(p pace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken = false; p.urgent {
		t.urgent--
	}
	t.next.Broadcast()
}

// givesWay reports whether a task that has the turn must end it: an urgent one waits.
func (t *turns) givesWay(p pace) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !p.urgent && t.urgent > 0
}

// pace says how a long task treats other work.
type pace struct {
	rest   scheduling.Pause
	urgent bool // a copy waits for it
}

// The paces.
var (
	background = pace{rest: scheduling.Rest}
	urgently   = pace{rest: scheduling.ShortRest, urgent: true}
)
