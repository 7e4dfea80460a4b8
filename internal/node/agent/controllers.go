package agent

import (
	"slices"
	"sync"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// following is the newest set of controllers that one of them told of (L7).
type following struct {
	mu      sync.Mutex
	known   bool
	since   uint64   // number of the change that made it
	members []string // sorted: grants of these count
	joining string   // the node keeps a stream to it too; empty: none
}

// tell takes the set of a welcome. Controllers learn of sets one after the other, so that an older one may come later.
func (f *following) tell(w *controllerv1.Welcome) (connected []string, news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(w.GetControllers()) == 0 || f.known && w.GetControllersSince() < f.since {
		return nil, false
	}
	f.known, f.since, f.joining = true, w.GetControllersSince(), w.GetJoining()
	f.members = slices.Sorted(slices.Values(w.GetControllers()))
	connected = slices.Clone(f.members)
	if f.joining != "" {
		connected = append(connected, f.joining)
	}
	return connected, true
}

// setID identifies the set in heartbeats. known is false before the first welcome.
func (f *following) setID() (setID uint32, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return reconfig.SetIDOf(f.members), f.known
}

// granter is the place of a controller among the members; -1: it is none.
func (f *following) granter(controller string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Index(f.members, controller)
}

// confirmed is the number of the change of the set that the node follows: it has a stream to the controller that joins. 0
// says that it does not follow the newest one yet.
func (m *membership) confirmed() uint64 {
	m.set.mu.Lock()
	since, joining := m.set.since, m.set.joining
	m.set.mu.Unlock()
	if joining == "" {
		return since
	}
	m.listening.Lock()
	l := m.links[joining]
	m.listening.Unlock()
	if l == nil || l.welcomedBy() == "" {
		return 0
	}
	return since
}
