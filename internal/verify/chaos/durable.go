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

// storeName is the name under which the controllers of a lab keep the cluster in etcd.
const storeName = "default"

// durable reads every change of the cluster's durable state. It follows the etcd of every controller, and takes each
// change from the one that tells it first, so that no change is missed or late because a controller is stopped.
type durable struct {
	state chan struct{} // closed with the first state
	stop  context.CancelFunc
	group errgroup.Group

	// live reports whether nothing is wrong with a node, as far as the trial knows. Nil: what becomes of a shard counts
	// whoever lives.
	live func(*reconfig.Node) bool

	mu        sync.Mutex
	now       *reconfig.State
	suspected int    // nodes that a change barred
	least     int    // complete copies of a shard
	missed    uint64 // changes that no etcd had any more
}

// observe begins to read at the etcd of every controller, and returns when the first state is there.
func (c *cluster) observe(ctx context.Context, live func(*reconfig.Node) bool) (*durable, error) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &durable{state: make(chan struct{}), stop: stop, live: live}
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

// end ends the reading.
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
		if n := &c.Nodes[i]; n.Standing.Bars() && n.Barred == c.Number {
			d.suspected++
		}
	}
	for number := range c.Shards {
		after := c.Shards[number]
		if d.counts(&d.now.Shards[number]) {
			d.least = min(d.least, complete(&after))
		}
	}
	d.now.Apply(c)
}

// counts reports whether what becomes of a shard counts: at least two of those that have it whole are live.
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

// incarnation is that of a node, as it is now; 0: there is no such node.
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

// seen is the number of suspicions, and the least number of complete copies of a shard, so far.
func (d *durable) seen() (suspected, least int, missed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.suspected, d.least, d.missed
}

// complete is how many complete copies a shard has.
func complete(s *reconfig.Shard) int {
	if s.Learner != 0 {
		return len(s.Members) - 1
	}
	return len(s.Members)
}
