package xdp

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// ConfigureAll implements [dataplane.Plane].
func (t *tables) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	if err := chain.ValidateAll(configs, len(t.shards.live)); err != nil {
		return err
	}
	t.configuring.Lock()
	defer t.configuring.Unlock()
	if t.unquiet { // a packet may still read the entries that will be written
		if err := t.outlast(); err != nil {
			return err
		}
	}
	served := t.shards.serves(configs)
	t.shards.prepare(configs)
	t.unquiet = true
	t.shards.commit(configs)
	if !served {
		return nil
	}
	return t.outlast()
}

// outlast waits until no packet is handled by a configuration that was replaced.
func (t *tables) outlast() error {
	if err := t.quiesce(); err != nil {
		return fmt.Errorf("waiting for packets under way: %w", err)
	}
	t.unquiet = false
	return nil
}

// Config implements [dataplane.Plane].
func (t *tables) Config(shard uint16) (chain.ShardConfig, error) {
	if err := t.shards.check(shard); err != nil {
		return chain.ShardConfig{}, err
	}
	return t.shards.config(shard), nil
}

// Renew implements [dataplane.Plane].
func (t *tables) Renew(until uint64) error {
	t.shards.renew(until)
	return nil
}
