package controller

import (
	"sync"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// inbox holds messages that wait for the leader. Adding one never blocks.
type inbox struct {
	ready chan struct{} // has an element if there may be something

	mu         sync.Mutex
	heartbeats map[reconfig.NodeID]reconfig.Heartbeat // the newest of each node: it says all that an older one said
	lives      map[reconfig.NodeID]uint64             // incarnations of nodes whose data planes answered
	asked      int                                    // how often all of them were sent a heartbeat
	calls      []func(*reconfig.Leader)
}

func newInbox() *inbox {
	return &inbox{ready: make(chan struct{}, 1), heartbeats: make(map[reconfig.NodeID]reconfig.Heartbeat),
		lives: make(map[reconfig.NodeID]uint64)}
}

func (i *inbox) heartbeat(b reconfig.Heartbeat) {
	i.mu.Lock()
	i.heartbeats[b.Node] = b
	i.mu.Unlock()
	i.wake()
}

// life is a node whose data plane answered.
type life struct {
	node        reconfig.NodeID
	incarnation uint64
}

// alive notes that the data planes of nodes answered.
func (i *inbox) alive(nodes []life) {
	i.mu.Lock()
	for _, n := range nodes {
		i.lives[n.node] = n.incarnation
	}
	i.mu.Unlock()
	i.wake()
}

// ask notes that the data planes of all nodes were sent a heartbeat.
func (i *inbox) ask() {
	i.mu.Lock()
	i.asked++
	i.mu.Unlock()
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

// arrivals are the messages of an inbox.
type arrivals struct {
	heartbeats map[reconfig.NodeID]reconfig.Heartbeat
	lives      map[reconfig.NodeID]uint64
	asked      int
	calls      []func(*reconfig.Leader)
}

// take empties the inbox, into maps that are empty.
func (i *inbox) take(empty arrivals) arrivals {
	clear(empty.heartbeats)
	clear(empty.lives)
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := arrivals{i.heartbeats, i.lives, i.asked, i.calls}
	i.heartbeats, i.lives, i.asked, i.calls = empty.heartbeats, empty.lives, 0, nil
	return taken
}
