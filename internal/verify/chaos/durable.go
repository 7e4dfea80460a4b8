package chaos

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/wire"
)

// storeName is the name of the cluster in the controllers' etcd.
const storeName = "default"

// durable reads every change of the cluster's durable state. It follows the etcd of every
// controller and takes each change from the first one that reports it, so that stopped controllers
// neither hide nor delay changes.
type durable struct {
	state chan struct{} // closed with the first state
	stop  context.CancelFunc
	group errgroup.Group

	// live reports whether no known fault affects a node. If nil, all shards count.
	live func(*reconfig.Node) bool
	tell func(format string, arguments ...any) // takes events; nil: nothing is told

	mu        sync.Mutex
	now       *reconfig.State
	suspected int    // nodes that a change fenced
	least     int    // fewest complete copies of a shard
	missed    uint64 // changes that every etcd had already discarded
}

// observe starts to read the etcd of every controller and returns after the first state.
func (c *cluster) observe(ctx context.Context, live func(*reconfig.Node) bool) (*durable, error) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &durable{state: make(chan struct{}), stop: stop, live: live, tell: c.setup.event}
	for _, h := range c.lab.Plan.With(lab.RoleController) {
		d.group.Go(func() error { return store.Observe(following, storeName, c.setup.Etcd(h), d) })
	}
	waiting, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	select {
	case <-d.state:
		return d, nil
	case <-waiting.Done():
		return nil, waiting.Err()
	}
}

// end stops reading.
func (d *durable) end() error {
	d.stop()
	return d.group.Wait()
}

// Loaded implements [store.Follower].
func (d *durable) Loaded(_ store.Formation, s *reconfig.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil && s.Change <= d.now.Change {
		return
	}
	if d.now == nil {
		d.least = s.Settings.Replicas
		close(d.state)
	} else {
		d.missed += s.Change - d.now.Change
	}
	for i := range s.Shards {
		if d.now == nil || d.counts(&d.now.Shards[i]) {
			d.least = min(d.least, complete(&s.Shards[i]))
		}
	}
	d.now = s
}

// Changed implements [store.Follower].
func (d *durable) Changed(c reconfig.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil || c.Number <= d.now.Change {
		return
	}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Standing.Fenced() && n.FencedBy == c.Number {
			d.suspected++
		}
	}
	for number := range c.Shards {
		after := c.Shards[number]
		if d.counts(&d.now.Shards[number]) {
			d.note(number, &after, c.Nodes)
		}
	}
	d.now.Apply(c)
}

// note takes the copies that a shard has after a change that counts. It tells of the first change that leaves fewer than two, and
// of each that leaves fewer still.
func (d *durable) note(number uint16, after *reconfig.Shard, nodes []reconfig.Node) {
	copies := complete(after)
	if copies < min(d.least, 2) && d.tell != nil {
		d.tell("shard %d was %+v and is %+v, with the nodes %+v", number, d.now.Shards[number], *after, nodes)
	}
	d.least = min(d.least, copies)
}

// counts reports whether a shard's copies count: at least two of its complete members are live.
func (d *durable) counts(before *reconfig.Shard) bool {
	if d.live == nil {
		return true
	}
	live := 0
	for _, id := range before.Members {
		if id != before.Learner && d.live(d.now.Nodes[id]) {
			live++
		}
	}
	return live > 1
}

// incarnation returns the current incarnation of a node, or 0 if there is no such node.
func (d *durable) incarnation(node string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.now.Nodes {
		if n.Name == node {
			return n.Incarnation
		}
	}
	return 0
}

// Keyed implements [store.Follower].
func (d *durable) Keyed(*wire.Keyring) {}

// Led implements [store.Follower].
func (d *durable) Led(store.Leader) {}

// changes returns the number of the newest change.
func (d *durable) changes() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.Change
}

// seen returns the number of suspicions, the fewest complete copies of a shard and the missed
// changes so far.
func (d *durable) seen() (suspected, least int, missed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.suspected, d.least, d.missed
}

// complete returns the number of complete copies of a shard.
func complete(s *reconfig.Shard) int {
	if s.Learner != 0 {
		return len(s.Members) - 1
	}
	return len(s.Members)
}
