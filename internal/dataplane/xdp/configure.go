package xdp

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/chain"
)

// ConfigureAll implements [dataplane.Plane].
func (p *Plane) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	if err := chain.ValidateAll(configs, p.live.shards); err != nil {
		return err
	}
	p.configuring.Lock()
	defer p.configuring.Unlock()
	if p.unquiet { // a packet may still read from the slots that will be written
		if err := p.quiesce(); err != nil {
			return err
		}
	}
	served, err := p.serves(configs)
	if err != nil {
		return err
	}
	if err := p.objects.putChains(p.live, configs); err != nil {
		return err
	}
	p.unquiet = true
	p.live.switchTo(configs)
	if !served {
		return nil
	}
	return p.quiesce()
}

// serves reports whether the node is in the chain of any of the shards now.
func (p *Plane) serves(shards map[uint16]chain.ShardConfig) (bool, error) {
	for shard := range shards {
		if c, err := p.Config(shard); err != nil || c.State != chain.None {
			return true, err
		}
	}
	return false, nil
}

// putChains writes configurations into those slots of their shards that are not in force: all of them, or an error.
func (o *objects) putChains(live *liveTable, configs map[uint16]chain.ShardConfig) error {
	slots, chains := make([]uint32, 0, len(configs)), make([]nqChainConfig, 0, len(configs))
	for shard, c := range configs {
		slots = append(slots, 2*uint32(shard)+uint32(1-live.slot(shard)))
		chains = append(chains, chainConfigOf(c))
	}
	if len(slots) == 0 {
		return nil
	}
	if _, err := o.Chains.BatchUpdate(slots, chains, &ebpf.BatchOptions{}); err != nil {
		return fmt.Errorf("writing %d configurations: %w", len(slots), err)
	}
	return nil
}

// quiesce waits until no packet is handled by a configuration that was replaced: the kernel ends an update of a map of
// maps only after all programs that run have ended.
func (p *Plane) quiesce() error {
	fan, err := newFan(p.objects.Egress, 1, p.ports[:1])
	if err != nil {
		return fmt.Errorf("waiting for packets under way: %w", err)
	}
	defer fan.Close()
	if err := p.objects.Fans.Put(uint32(fanColumns+1), fan); err != nil {
		return fmt.Errorf("waiting for packets under way: %w", err)
	}
	p.unquiet = false
	return nil
}
