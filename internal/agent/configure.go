package agent

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/internal/topology"
)

// invalid is a configuration that can never be right; refusal is one that the node's present state forbids.
type (
	invalid struct{ error }
	refusal struct{ error }
)

// applyCluster configures every shard from a cluster file and lets the node answer reads for ever: nobody can be removed
// from a static chain. A shard that is configured so already, in a plane that outlived its agent, is left alone.
func (a *Agent) applyCluster(c *topology.Cluster) error {
	info := a.options.Plane.Info()
	node, ok := c.Node(a.options.Name)
	switch {
	case !ok:
		return fmt.Errorf("the cluster has no node %q", a.options.Name)
	case node.Addr != info.Addr:
		return fmt.Errorf("the cluster has node %q at %v, but its data plane is at %v", node.Name, node.Addr, info.Addr)
	case c.Shards != info.Options.Shards:
		return fmt.Errorf("the cluster has %d shards, but the data plane was made for %d", c.Shards, info.Options.Shards)
	}
	configs := make(map[uint16]chain.ShardConfig, c.Shards)
	for shard := range c.Shards {
		configs[uint16(shard)] = c.ShardConfig(a.options.Name, uint16(shard))
	}
	if err := a.configure(configs); err != nil {
		return err
	}
	for shard, config := range configs {
		if config.State == chain.None {
			continue
		}
		if err := a.options.Plane.Grant(shard, dataplane.Forever); err != nil {
			return err
		}
	}
	return nil
}

// configure checks all configurations, then applies them.
func (a *Agent) configure(configs map[uint16]chain.ShardConfig) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	self := a.options.Plane.Info().Addr
	shards := slices.Sorted(maps.Keys(configs))
	changed := make(map[uint16]chain.ShardConfig)
	for _, shard := range shards {
		old, err := a.options.Plane.Config(shard)
		if err != nil {
			return err
		}
		next := configs[shard]
		if err := follows(self, old, next); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		if !same(old, next) {
			changed[shard] = next
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := a.options.Plane.ConfigureAll(changed); err != nil {
		return err
	}
	epoch := uint32(0)
	for _, config := range changed {
		epoch = max(epoch, config.Epoch)
	}
	a.log.Info("configured", "shards", len(changed), "epoch", epoch)
	return nil
}

// follows checks that a node at self, configured as old, may be configured as next.
func follows(self netip.AddrPort, old, next chain.ShardConfig) error {
	if err := next.Validate(); err != nil {
		return invalid{err}
	}
	switch {
	case next.Epoch == 0:
		return invalid{errors.New("the first epoch is 1")}
	case next.State != chain.None && next.Members[next.Self] != self:
		return invalid{fmt.Errorf("this node is %v, not %v", self, next.Members[next.Self])}
	case next.Epoch < old.Epoch:
		return refusal{fmt.Errorf("epoch %d is older than the node's %d", next.Epoch, old.Epoch)}
	case next.Epoch == old.Epoch && !sameChain(old, next):
		return refusal{fmt.Errorf("the chain of epoch %d is %v here: another chain needs a higher epoch", old.Epoch, old.Members)}
	}
	return nil
}

// sameChain lets a node leave its chain within an epoch, but not join another.
func sameChain(old, next chain.ShardConfig) bool {
	return next.State == chain.None || slices.Equal(old.Members, next.Members)
}

func same(a, b chain.ShardConfig) bool {
	return a.Epoch == b.Epoch && a.State == b.State && a.Learner == b.Learner && a.Self == b.Self &&
		slices.Equal(a.Members, b.Members)
}
