package controller

import (
	"sync"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// inbox is what has come for a leader and was not given to it yet. Whoever puts something in never waits.
type inbox struct {
	ready chan struct{} // has an element if there may be something

	mu    sync.Mutex
	beats map[reconfig.NodeID]reconfig.Beat // the newest of each node: it says all that an older one said
	calls []func(*reconfig.Leader)
}

func newInbox() *inbox {
	return &inbox{ready: make(chan struct{}, 1), beats: make(map[reconfig.NodeID]reconfig.Beat)}
}

func (i *inbox) beat(b reconfig.Beat) {
	i.mu.Lock()
	i.beats[b.Node] = b
	i.mu.Unlock()
	i.wake()
}

// call has something done with the leader, if it leads long enough.
func (i *inbox) call(do func(*reconfig.Leader)) {
	i.mu.Lock()
	i.calls = append(i.calls, do)
	i.mu.Unlock()
	i.wake()
}

func (i *inbox) wake() {
	select {
	case i.ready <- struct{}{}:
	default: // it was woken already
	}
}

// take empties the inbox into empty ones.
func (i *inbox) take(beats map[reconfig.NodeID]reconfig.Beat) (map[reconfig.NodeID]reconfig.Beat, []func(*reconfig.Leader)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken, calls := i.beats, i.calls
	i.beats, i.calls = beats, nil
	return taken, calls
}
