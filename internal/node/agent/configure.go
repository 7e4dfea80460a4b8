package agent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// checkCluster compares the cluster file with the plane.
func (a *Agent) checkCluster(c *topology.Cluster) error {
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
	return nil
}

// applyCluster configures every shard from a cluster file and lets the node answer reads for ever, because no node can be
// removed from a static chain. A shard that has this configuration already, in a plane that outlived its agent, stays as it
// is.
func (a *Agent) applyCluster(c *topology.Cluster) error {
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
		if err := reconfig.CheckStep(self, old, next); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		if !reconfig.SameConfig(old, next) {
			changed[shard] = next
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := a.options.Plane.ConfigureAll(changed); err != nil {
		return err
	}
	a.resyncer.wake()
	epoch := uint32(0)
	for _, config := range changed {
		epoch = max(epoch, config.Epoch)
	}
	a.log.Info("configured", "shards", len(changed), "epoch", epoch)
	return nil
}
