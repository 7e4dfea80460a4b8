package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// view is the durable state as this controller received it from etcd, change by change. While etcd is unreachable it stays
// as it is, and leases are granted from it.
type view struct {
	self       string // this controller's address
	now        func() time.Duration
	onRemoved  func(reconfig.NodeID) // told of nodes that were removed
	onSettings func()                // told of other times, tags or controllers

	mu        sync.Mutex
	formation store.Formation
	state     *reconfig.State // nil before it was loaded
	byName    map[string]reconfig.NodeID
	leader    store.Leader
	news      chan struct{} // closed at the next change of anything here
	clusters  *controllerv1.MapResponse
	keys      *wire.Keyring // of a cluster with tags
	keyspaces map[string]store.KeyspaceRecord

	// The grantor has a lock of its own: heartbeats do not wait while a map is made.
	granting sync.Mutex
	grantor  *reconfig.Grantor
}

func newView(self string, now func() time.Duration, onRemoved func(reconfig.NodeID), onSettings func()) *view {
	return &view{self: self, now: now, onRemoved: onRemoved, onSettings: onSettings, news: make(chan struct{})}
}

// Loaded is of [store.Follower].
func (v *view) Loaded(f store.Formation, s *reconfig.State) {
	v.granting.Lock()
	if v.grantor == nil {
		v.grantor = reconfig.NewGrantor(s, v.self, v.now(), 0)
	} else {
		v.grantor.Load(s)
	}
	v.granting.Unlock()

	defer v.onSettings()
	defer func() {
		for id := range s.Nodes {
			if v.removed(id) {
				v.onRemoved(id)
			}
		}
	}()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.formation, v.state = f, s
	v.byName = make(map[string]reconfig.NodeID, len(s.Nodes))
	for id, n := range s.Nodes {
		v.byName[n.Name] = id
	}
	v.tell()
}

// Changed is of [store.Follower].
func (v *view) Changed(c reconfig.Change) {
	v.granting.Lock()
	v.grantor.Apply(c)
	v.granting.Unlock()

	for i := range c.Nodes {
		if c.Nodes[i].Standing == reconfig.Removed {
			defer v.onRemoved(c.Nodes[i].ID) // once it is applied
		}
	}
	if c.Times != (reconfig.Times{}) || c.Tags != (reconfig.TagStep{}) || c.Controllers.Since != 0 {
		defer v.onSettings()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state.Apply(c)
	v.formation.Settings, v.formation.Controllers = v.state.Settings, v.state.Controllers
	for i := range c.Nodes {
		v.byName[c.Nodes[i].Name] = c.Nodes[i].ID
	}
	v.tell()
}

// Led is of [store.Follower].
func (v *view) Led(l store.Leader) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leader = l
	v.tell()
}

// tell wakes all waiters. The caller holds the lock.
func (v *view) tell() {
	v.clusters = nil
	close(v.news)
	v.news = make(chan struct{})
}

// until waits until something holds, which is asked with the lock held: at first, and after everything new.
func (v *view) until(ctx context.Context, holds func() bool) error {
	for {
		v.mu.Lock()
		done, news := holds(), v.news
		v.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

// loaded reports whether there is a state at all. The caller holds the lock.
func (v *view) loaded() bool { return v.state != nil }

// controllers is the set of controllers.
func (v *view) controllers() reconfig.ControllerSet { return v.formed().Controllers }

// counts reports whether this controller is a member of the set of controllers. The caller holds the lock.
func (v *view) counts() bool { return v.loaded() && v.state.Controllers.Has(v.self) }

// expelled reports whether this controller is to end: it neither counts nor joins, and its etcd is not needed any more. The
// caller holds the lock.
func (v *view) expelled() bool { return v.loaded() && !v.state.Controllers.Knows(v.self) }

// removed reports whether a node was removed.
func (v *view) removed(id reconfig.NodeID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.loaded() && v.state.Nodes[id] != nil && v.state.Nodes[id].Standing == reconfig.Removed
}

// node finds a node by name. The caller holds the lock.
func (v *view) node(name string) *reconfig.Node {
	if !v.loaded() {
		return nil
	}
	return v.state.Nodes[v.byName[name]]
}

// led returns the leader, and a channel that is closed when anything changes.
func (v *view) led() (store.Leader, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leader, v.news
}

func (v *view) formed() store.Formation {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.formation
}

func (v *view) change() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == nil {
		return 0
	}
	return v.state.Change
}

// grant answers a heartbeat.
func (v *view) grant(b reconfig.Heartbeat) (reconfig.Grant, bool) {
	v.granting.Lock()
	defer v.granting.Unlock()
	return v.grantor.Heartbeat(v.now(), b)
}

// grants reports whether a node gets grants.
func (v *view) grants(id reconfig.NodeID, incarnation uint64) bool {
	v.granting.Lock()
	defer v.granting.Unlock()
	return v.grantor.Grants(id, incarnation)
}

// knows reports whether a node is in the cluster, in good standing or not.
func (v *view) knows(id reconfig.NodeID, incarnation uint64) bool {
	v.granting.Lock()
	defer v.granting.Unlock()
	return v.grantor.Knows(id, incarnation)
}

// leaseLeft waits until a change is applied, and says how long the grants to some nodes may last from then on.
func (v *view) leaseLeft(ctx context.Context, change uint64, nodes []reconfig.NodeID) (left time.Duration, err error) {
	applied := false
	err = v.until(ctx, func() bool {
		if !v.loaded() {
			return false
		}
		v.granting.Lock()
		defer v.granting.Unlock()
		left, applied = v.grantor.LeaseLeft(v.now(), change, nodes)
		return applied
	})
	return left, err
}

// clone copies the state. Its parts are replaced, never written to.
func (v *view) clone() *reconfig.State {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == nil {
		return nil
	}
	s := *v.state
	s.Shards = slices.Clone(s.Shards)
	s.Nodes = make(map[reconfig.NodeID]*reconfig.Node, len(v.state.Nodes))
	for id, n := range v.state.Nodes {
		s.Nodes[id] = n
	}
	return &s
}
